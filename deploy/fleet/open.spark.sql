-- Views for Spark 4. $BINS and $INTERVALS are views of text columns that spark.py creates from *.bins.csv* and
-- *.intervals.csv*. $LABEL is the label to group by, such as rack. $LIMIT_NS is a lateness, such as 1000000. Quoted names
-- need spark.sql.ansi.doubleQuotedIdentifiers.
-- $LABEL_PATTERN is that label in a regular expression, with each dot written as [.].
CREATE OR REPLACE TEMPORARY VIEW bins AS
SELECT coalesce(host, '') AS host, subject, CAST(period_ns AS BIGINT) AS period_ns, coalesce(runtime, '') AS runtime,
       substr(coalesce(start, ''), 1, 13) AS hour, coalesce(regexp_extract(labels, '(^|;)$LABEL_PATTERN=([^;]*)', 2), '') AS label,
       binning, CAST(lower_ns AS BIGINT) AS lower_ns, CAST(upper_ns AS BIGINT) AS upper_ns, CAST("count" AS BIGINT) AS n
FROM $BINS;
CREATE OR REPLACE TEMPORARY VIEW intervals AS
SELECT coalesce(host, '') AS host, subject, CAST(period_ns AS BIGINT) AS period_ns, coalesce(runtime, '') AS runtime,
       substr(coalesce(start, ''), 1, 13) AS hour, coalesce(regexp_extract(labels, '(^|;)$LABEL_PATTERN=([^;]*)', 2), '') AS label,
       CAST(ticks AS BIGINT) AS ticks, CAST(skipped AS BIGINT) AS skipped, CAST(missed AS BIGINT) AS missed,
       CAST(early AS BIGINT) AS early, CAST(max_ns AS BIGINT) AS max_ns
FROM $INTERVALS;
CREATE OR REPLACE TEMPORARY VIEW parameters AS SELECT '$LABEL' AS label_key, CAST($LIMIT_NS AS BIGINT) AS limit_ns;
