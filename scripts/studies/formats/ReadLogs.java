import java.io.ByteArrayInputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.HdrHistogram.EncodableHistogram;
import org.HdrHistogram.Histogram;
import org.HdrHistogram.HistogramLogReader;

/** Reads logs with the reader of the format, and prints what it finds of each tag as JSON, in the unit of the log. */
public class ReadLogs {
    public static void main(String[] arguments) throws Exception {
        System.out.print("{");
        for (int i = 0; i < arguments.length; i++) {
            String name = arguments[i].replaceAll(".*/", "");
            System.out.print((i > 0 ? "," : "") + "\n\"" + name + "\": " + read(arguments[i]));
        }
        System.out.println("\n}");
    }

    static String read(String file) throws Exception {
        Map<String, Histogram> tags = new TreeMap<>();
        Map<String, Integer> intervals = new TreeMap<>();
        // This reader ends at a blank line; those of other languages do not.
        String lines = Files.readAllLines(Path.of(file)).stream()
            .filter(line -> !line.isBlank()).map(line -> line.replace("\ufeff", "") + "\n").collect(Collectors.joining());
        HistogramLogReader reader = new HistogramLogReader(new ByteArrayInputStream(lines.getBytes(StandardCharsets.UTF_8)));
        while (reader.hasNext()) {
            EncodableHistogram next = reader.nextIntervalHistogram();
            if (next == null) {
                continue;
            }
            Histogram histogram = (Histogram) next;
            String tag = histogram.getTag() == null ? "untagged" : histogram.getTag();
            intervals.merge(tag, 1, Integer::sum);
            Histogram sum = tags.get(tag);
            if (sum == null) {
                tags.put(tag, histogram.copy());
                tags.get(tag).setAutoResize(true);
            } else {
                // Of the same digits and the same lowest value: bins are added to bins.
                sum.add(histogram);
            }
        }
        StringBuilder json = new StringBuilder("{");
        for (Map.Entry<String, Histogram> entry : tags.entrySet()) {
            Histogram h = entry.getValue();
            json.append(json.length() > 1 ? ", " : "").append(String.format(
                "\"%s\": {\"intervals\": %d, \"count\": %d, \"min\": %d, \"mean\": %d, \"p50\": %d, \"p90\": %d, \"p99\": %d, \"max\": %d}",
                entry.getKey(), intervals.get(entry.getKey()), h.getTotalCount(), h.getMinValue(), (long) h.getMean(),
                h.getValueAtPercentile(50), h.getValueAtPercentile(90), h.getValueAtPercentile(99), h.getMaxValue()));
        }
        return json.append("}").toString();
    }
}
