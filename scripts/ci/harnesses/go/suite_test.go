// Benchmarks of Go. WORK is the length of one of them, in per cent.
package suite

import (
	"os"
	"sort"
	"strconv"
	"testing"
)

var sink int

func steps() int {
	percent, err := strconv.Atoi(os.Getenv("WORK"))
	if err != nil {
		percent = 100
	}
	return 50 * percent
}

func BenchmarkSort(b *testing.B) {
	for n := 0; n < b.N; n++ {
		numbers := make([]int, 1000)
		for index := range numbers {
			numbers[index] = index * 7919 % 1009
		}
		sort.Ints(numbers)
		sink += numbers[0]
	}
}

func BenchmarkWork(b *testing.B) {
	count := steps()
	for n := 0; n < b.N; n++ {
		for step := 0; step < count; step++ {
			sink += step
		}
	}
}

func BenchmarkOnlyRate(b *testing.B) {
	for n := 0; n < b.N; n++ {
		sink++
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(7, "rows/s")
}
