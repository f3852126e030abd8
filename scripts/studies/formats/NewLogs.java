import java.io.File;
import java.io.PrintStream;
import org.HdrHistogram.ConcurrentHistogram;
import org.HdrHistogram.DoubleHistogram;
import org.HdrHistogram.Histogram;
import org.HdrHistogram.HistogramLogWriter;
import org.HdrHistogram.PackedHistogram;

/** Writes logs with what only recent versions have: tags, kinds of histograms, and DoubleHistogram. */
public class NewLogs {
    static final long START = 1_700_000_000_000L;
    static HistogramLogWriter log;

    static void add(Histogram histogram, String tag, int second) {
        histogram.setTag(tag);
        histogram.setStartTimeStamp(START + 1_000L * second);
        histogram.setEndTimeStamp(START + 1_000L * second + 1_000);
        log.outputIntervalHistogram(histogram);
    }

    static void addDouble(int second) {
        DoubleHistogram histogram = new DoubleHistogram(3);
        histogram.recordValue(0.25 + second);
        histogram.setStartTimeStamp(START + 1_000L * second);
        histogram.setEndTimeStamp(START + 1_000L * second + 1_000);
        log.outputIntervalHistogram(histogram);
    }

    static void addTagged(int i) {
        Histogram histogram = new Histogram(3);
        for (int k = 1; k <= 300; k++) {
            histogram.recordValue(1_000L * k * (i % 2 == 0 ? 1 : 37));
        }
        add(histogram, i % 2 == 0 ? null : "writes", i / 2);
    }

    /** Adds a histogram whose smallest bins are as wide as they can be with this number of digits. */
    static void addCoarse(int digits) {
        int[] magnitudes = {1, 5, 8, 11, 15, 18};
        long lowest = 1L << (62 - magnitudes[digits]);
        Histogram histogram = new Histogram(lowest, Long.MAX_VALUE, digits);
        // A log of years: the values are up to 31 years in nanoseconds.
        for (int power = 30; power < 60; power++) {
            histogram.recordValueWithCount(1L << power, 100 * (1 + power % 3));
        }
        add(histogram, "digits-" + digits, digits);
    }

    static void addKind(Histogram histogram, String tag) {
        for (int k = 1; k <= 500; k++) {
            histogram.recordValue(977L * k * k);
        }
        add(histogram, tag, 0);
    }

    public static void main(String[] arguments) throws Exception {
        log = new HistogramLogWriter(new PrintStream(new File(arguments[1])));
        log.outputLogFormatVersion();
        log.outputBaseTime(START);
        log.outputLegend();
        log.setBaseTime(START);
        switch (arguments[0]) {
            case "tags" -> { for (int i = 0; i < 4; i++) addTagged(i); }
            case "double" -> { for (int i = 0; i < 4; i++) addDouble(i); }
            case "coarse" -> { for (int digits = 1; digits <= 5; digits++) addCoarse(digits); }
            case "kinds" -> {
                addKind(new ConcurrentHistogram(4), "concurrent");
                addKind(new PackedHistogram(2), "packed");
                addKind(new Histogram(1_000L, 1_000_000_000L, 1), "one-digit");
            }
            default -> throw new IllegalArgumentException(arguments[0]);
        }
        log.close();
    }
}
