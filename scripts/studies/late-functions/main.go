// A loop with the contract of measured programs, whose ticks are late in parseOrders and in hashBlocks.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
	"unsafe"
)

func nowNs() int64 {
	var t syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, 1, uintptr(unsafe.Pointer(&t)), 0)
	return t.Nano()
}

//go:noinline
func parseOrders(n int) int {
	sum := 0
	for i := 0; i < n; i++ {
		var order map[string]any
		_ = json.Unmarshal([]byte(`{"id":17,"items":[1,2,3],"name":"order"}`), &order)
		sum += len(order)
	}
	return sum
}

//go:noinline
func hashBlocks(n int) uint64 {
	hash := uint64(1469598103934665603)
	for i := 0; i < n; i++ {
		hash = (hash ^ uint64(i&255)) * 1099511628211
	}
	return hash
}

var sink uint64

func main() {
	number := func(name string) int64 { value, _ := strconv.ParseInt(os.Getenv(name), 10, 64); return value }
	period, ticks, warmup := number("OSJITTER_PERIOD_NS"), number("OSJITTER_TICKS"), number("OSJITTER_WARMUP")
	file, _ := os.Create(os.Getenv("OSJITTER_OUT"))
	out := bufio.NewWriter(file)
	fmt.Fprintf(out, "osjitter.series/1 period_ns=%d\n", period)
	deadline := nowNs() + 2*period
	for tick := int64(0); tick < ticks+warmup; tick++ {
		for now := nowNs(); now < deadline; now = nowNs() {
			time.Sleep(time.Duration(deadline - now))
		}
		wake := nowNs()
		if tick >= warmup && os.Getenv("OSJITTER_TIMES") != "" {
			fmt.Fprintf(out, "%d %d\n", wake-deadline, wake)
		} else if tick >= warmup {
			fmt.Fprintf(out, "%d\n", wake-deadline)
		}
		if tick%30 == 10 {
			sink += uint64(parseOrders(25000))
		}
		if tick%30 == 25 {
			sink += hashBlocks(50000000)
		}
		deadline += period
	}
	out.Flush()
}
