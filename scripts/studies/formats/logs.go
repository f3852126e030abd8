// Command logs writes a log with the Go HdrHistogram that its module selects. With the argument "relative", the times of its histograms
// are relative to the start. With "hgrm", it writes a percentile distribution in milliseconds, and prints the values that the library
// finds.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
)

func writeDistribution(file *os.File) {
	h := hdr.New(1, 3_600_000_000_000, 3)
	state := uint64(9)
	for i := 0; i < 5_000; i++ {
		state = state*6364136223846793005 + 1442695040888963407
		check(h.RecordValue(100_000 + int64(state>>33)%900_000))
	}
	_, err := h.PercentilesPrint(file, 5, 1e6)
	check(err)
	fmt.Printf(`{"name": "%s", "unit": "ms", "scale": 1000000, "count": %d, "mean": %.6f, "max": %d, "p50": %d, "p90": %d, "p99": %d}`+"\n",
		filepath.Base(file.Name()), h.TotalCount(), h.Mean(), h.Max(), h.ValueAtQuantile(50), h.ValueAtQuantile(90),
		h.ValueAtQuantile(99))
}

func main() {
	file, err := os.Create(os.Args[1])
	check(err)
	if len(os.Args) == 3 && os.Args[2] == "hgrm" {
		writeDistribution(file)
		check(file.Close())
		return
	}
	log := hdr.NewHistogramLogWriter(file)
	check(log.OutputComment("[Written by a service in Go]"))
	check(log.OutputLogFormatVersion())
	check(log.OutputStartTime(1_700_000_000_000))
	start := int64(0)
	if len(os.Args) == 2 {
		start = 1_700_000_000_000
		check(log.OutputBaseTime(start))
		log.SetBaseTime(start)
	}
	check(log.OutputLegend())
	state := uint64(7)
	for second := int64(0); second < 3; second++ {
		histogram := hdr.New(1, 3_600_000_000_000, 3)
		for i := 0; i < 300; i++ {
			state = state*6364136223846793005 + 1442695040888963407
			check(histogram.RecordValue(100_000 + int64(state>>33)%200_000))
		}
		histogram.SetStartTimeMs(start + 1_000*second)
		histogram.SetEndTimeMs(start + 1_000*second + 1_000)
		check(log.OutputIntervalHistogram(histogram))
	}
	check(file.Close())
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
