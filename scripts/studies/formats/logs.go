// Command logs writes a log with the Go HdrHistogram that its module selects.
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
	check(log.OutputBaseTime(1_700_000_000_000))
	check(log.OutputLegend())
	log.SetBaseTime(1_700_000_000_000)
	state := uint64(7)
	for second := int64(0); second < 3; second++ {
		histogram := hdr.New(1, 3_600_000_000_000, 3)
		for i := 0; i < 300; i++ {
			state = state*6364136223846793005 + 1442695040888963407
			check(histogram.RecordValue(100_000 + int64(state>>33)%200_000))
		}
		histogram.SetStartTimeMs(1_700_000_000_000 + 1_000*second)
		histogram.SetEndTimeMs(1_700_000_001_000 + 1_000*second)
		check(log.OutputIntervalHistogram(histogram))
	}
	check(file.Close())
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
