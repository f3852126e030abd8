// Writes logs with HdrHistogramJS.   node logs.js VERSION MODULE DIRECTORY
"use strict";
const { writeFileSync } = require("fs");
const [version, module_, directory] = process.argv.slice(2);
const hdr = require(module_);

let state = 7n;
const random = (bound) => {
  state = (state * 6364136223846793005n + 1442695040888963407n) % (1n << 64n);
  return Number((state >> 33n) % BigInt(bound));
};
const fill = (histogram, scale, count) => {
  for (let i = 0; i < count; i++) {
    histogram.recordValue(Math.floor(scale / 2) + random(scale) + (random(50) === 0 ? 10 * random(scale) : 0));
  }
};
const build = () => hdr.build({ lowestDiscernibleValue: 1, highestTrackableValue: 2 ** 40, numberOfSignificantValueDigits: 3 });

// A percentile distribution in milliseconds, and the values that the library finds, as JSON.
const distribution = build();
fill(distribution, 40000, 5000);
const mean = distribution.mean ?? distribution.getMean();
const largest = distribution.maxValue ?? distribution.getMaxValue();
const at = (percentile) => distribution.getValueAtPercentile(percentile);
writeFileSync(`${directory}/js-${version}.hgrm`, distribution.outputPercentileDistribution(5, 1000));
const found = { name: `js-${version}.hgrm`, unit: "ms", scale: 1000, count: Number(distribution.totalCount ?? distribution.getTotalCount()) };
console.log(JSON.stringify({ ...found, mean, max: largest, p50: at(50), p90: at(90), p99: at(99) }));
state = 7n;

// Microseconds, and Interval_Max in milliseconds by the library's default.
let text = "";
let log = new hdr.HistogramLogWriter((content) => (text += content));
log.outputComment("[Written by a service in JavaScript]");
log.outputLogFormatVersion();
log.outputStartTime(1700000000000);
log.outputLegend();
for (let second = 0; second < 3; second++) {
  const histogram = build();
  fill(histogram, 300, 400);
  histogram.startTimeStampMsec = 1700000000000 + 1000 * second;
  histogram.endTimeStampMsec = 1700000001000 + 1000 * second;
  log.outputIntervalHistogram(histogram);
}
writeFileSync(`${directory}/js-${version}.hlog`, text);

// The layout of node-hiccup: milliseconds, a comment that says so, a tag, and blank lines from a logger that ends lines itself.
if (version.startsWith("2")) {
  text = "";
  log = new hdr.HistogramLogWriter((content) => (text += content + "\n"));
  log.outputLogFormatVersion();
  log.outputComment("node-hiccup v1.0");
  log.outputComment("Timestamp and interval length are in seconds");
  log.outputComment("Hiccup measures & interval max are in milliseconds");
  text += '#"Tag","StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"\n';
  for (let second = 0; second < 3; second++) {
    const histogram = build();
    fill(histogram, 4, 500);
    histogram.tag = "HICCUP";
    histogram.startTimeStampMsec = 1700000000000 + 5000 * second;
    histogram.endTimeStampMsec = 1700000005000 + 5000 * second;
    log.outputIntervalHistogram(histogram, undefined, undefined, 1);
  }
  writeFileSync(`${directory}/node-hiccup.hlog`, text);
}
