import java.io.File;
import java.io.PrintStream;
import org.HdrHistogram.DoubleHistogram;
import org.HdrHistogram.Histogram;
import org.HdrHistogram.HistogramLogWriter;

/** Writes logs with what only recent versions have: tags, and DoubleHistogram. */
public class NewLogs {
    public static void main(String[] arguments) throws Exception {
        HistogramLogWriter log = new HistogramLogWriter(new PrintStream(new File(arguments[1])));
        log.outputLogFormatVersion();
        log.outputBaseTime(1_700_000_000_000L);
        log.outputLegend();
        log.setBaseTime(1_700_000_000_000L);
        for (int i = 0; i < 4; i++) {
            long start = 1_700_000_000_000L + 1_000L * (i / 2);
            if (arguments[0].equals("double")) {
                DoubleHistogram histogram = new DoubleHistogram(3);
                histogram.recordValue(0.25 + i);
                histogram.setStartTimeStamp(start);
                histogram.setEndTimeStamp(start + 1_000);
                log.outputIntervalHistogram(histogram);
                continue;
            }
            Histogram histogram = new Histogram(3);
            for (int k = 1; k <= 300; k++) {
                histogram.recordValue(1_000L * k * (i % 2 == 0 ? 1 : 37));
            }
            histogram.setTag(i % 2 == 0 ? null : "writes");
            histogram.setStartTimeStamp(start);
            histogram.setEndTimeStamp(start + 1_000);
            log.outputIntervalHistogram(histogram);
        }
        log.close();
    }
}
