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
