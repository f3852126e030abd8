// Benchmarks of JMH. WORK is the length of one of them, in per cent.
package suite;

import java.util.Arrays;
import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.*;

@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.MICROSECONDS)
public class Suite {
    static final int STEPS = 50 * Integer.parseInt(System.getenv().getOrDefault("WORK", "100"));

    @State(Scope.Benchmark)
    public static class Size {
        @Param({"100", "1000"})
        int count;
    }

    @Benchmark
    public int[] sort(Size size) {
        int[] numbers = new int[size.count];
        for (int index = 0; index < size.count; index++) {
            numbers[index] = index * 7919 % 1009;
        }
        Arrays.sort(numbers);
        return numbers;
    }

    @Benchmark
    @BenchmarkMode({Mode.AverageTime, Mode.SampleTime})
    public double work() {
        double sum = 0;
        for (int step = 0; step < STEPS; step++) {
            sum += Math.sqrt(step);
        }
        return sum;
    }

    @Benchmark
    public void planned() {
        throw new IllegalStateException("not written yet");
    }
}
