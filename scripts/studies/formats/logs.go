// Command logs writes a log with the Go HdrHistogram that its module selects. With a second argument, the times of its histograms are
// relative to the start.
package main

import (
	"os"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
)

func main() {
	file, err := os.Create(os.Args[1])
	check(err)
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
