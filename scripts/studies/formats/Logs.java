import java.io.File;
import java.io.PrintStream;
import org.HdrHistogram.Histogram;
import org.HdrHistogram.HistogramLogWriter;

/** Writes logs with the version of HdrHistogram on the class path, which decides the encoding. */
public class Logs {
    static long state;
    static PrintStream out;

    /** Returns pseudo-random numbers below a bound, the same ones in every run. */
    static long random(long bound) {
        state = state * 6364136223846793005L + 1442695040888963407L;
        return Math.floorMod(state >> 16, bound);
    }

    /** Records values that are mostly near a scale, and a few a hundred times larger. */
    static void fill(Histogram histogram, long scale, int count) {
        for (int i = 0; i < count; i++) {
            histogram.recordValue(scale / 2 + random(scale) + (random(50) == 0 ? 100 * random(scale) : 0));
        }
    }

    static HistogramLogWriter open(String name, String comment) throws Exception {
        out = new PrintStream(new File(name));
        HistogramLogWriter log = new HistogramLogWriter(out);
        log.outputComment(comment);
        log.outputLogFormatVersion();
        return log;
    }

    /** A log with the defaults of jHiccup: two digits, and a lowest value of 20 us. */
    static void jhiccup(String name) throws Exception {
        HistogramLogWriter log = open(name, "[Logged with jHiccup version 2.0.10]");
        log.outputStartTime(1_438_869_961_225L);
        log.outputLegend();
        for (int i = 0; i < 3; i++) {
            Histogram histogram = new Histogram(20_000L, 3_600_000_000_000L, 2);
            fill(histogram, 300_000, 400);
            log.outputIntervalHistogram(0.125 + i, 1.125 + i, histogram);
        }
        out.close();
    }

    /** A log with as many digits as there can be, and absolute times. */
    static void digits(String name) throws Exception {
        HistogramLogWriter log = open(name, "[Five digits]");
        log.outputLegend();
        for (int i = 0; i < 2; i++) {
            Histogram histogram = new Histogram(1L, 3_600_000_000_000L, 5);
            fill(histogram, 5_000_000, 300);
            log.outputIntervalHistogram(1_700_000_000.5 + i, 1_700_000_001.5 + i, histogram);
        }
        out.close();
    }

    /** A log of YCSB: microseconds, and an empty interval. */
    static void ycsb(String name) throws Exception {
        HistogramLogWriter log = open(name, "[Logging for: READ]");
        log.outputStartTime(1_438_613_579_295L);
        log.outputLegend();
        for (int i = 0; i < 3; i++) {
            Histogram histogram = new Histogram(1L, 3_600_000_000L, 3);
            fill(histogram, 400, i == 1 ? 0 : 500);
            log.outputIntervalHistogram(1_438_613_579.29 + i, 1_438_613_580.29 + i, histogram);
        }
        out.close();
    }

    /** A percentile distribution in milliseconds, as jHiccup writes it. Prints the values that the library finds, as JSON. */
    static void distribution(String name, boolean isCsv) throws Exception {
        Histogram h = new Histogram(1L, 3_600_000_000_000L, 3);
        fill(h, 400_000, 5_000);
        out = new PrintStream(new File(name));
        h.outputPercentileDistribution(out, 5, 1e6, isCsv);
        out.close();
        System.out.printf(
            "{\"name\": \"%s\", \"unit\": \"ms\", \"scale\": 1000000, \"count\": %d, \"mean\": %.6f, \"max\": %d, \"p50\": %d, \"p90\": %d, "
                + "\"p99\": %d}%n",
            name.replaceAll(".*/", ""), h.getTotalCount(), h.getMean(), h.getMaxValue(), h.getValueAtPercentile(50),
            h.getValueAtPercentile(90), h.getValueAtPercentile(99));
    }

    public static void main(String[] arguments) throws Exception {
        String name = arguments[1];
        state = name.length();
        switch (arguments[0]) {
            case "jhiccup" -> jhiccup(name);
            case "digits" -> digits(name);
            case "ycsb" -> ycsb(name);
            case "hgrm" -> distribution(name, false);
            case "csv" -> distribution(name, true);
            default -> throw new IllegalArgumentException(arguments[0]);
        }
    }
}
