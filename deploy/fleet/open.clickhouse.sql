-- ClickHouse, clickhouse-local and chDB. $BINS is file('logs/**/*.bins.csv*', CSVWithNames), or s3(…), url(…), a table with
-- the same columns; $INTERVALS the same of *.intervals.*; $LABEL the label to group by, such as rack; $LIMIT_NS a lateness,
-- such as 1000000. Read text as text: SET input_format_csv_use_best_effort_in_schema_inference = 0.
CREATE OR REPLACE VIEW bins AS
SELECT coalesce(toString(host), '') AS host, toString(subject) AS subject, CAST(period_ns AS BIGINT) AS period_ns,
       coalesce(toString(runtime), '') AS runtime, substr(coalesce(toString(start), ''), 1, 13) AS hour,
       coalesce(regexp_extract(toString(labels), '(^|;)$LABEL=([^;]*)', 2), '') AS label, toString(binning) AS binning,
       CAST(lower_ns AS BIGINT) AS lower_ns, CAST(upper_ns AS BIGINT) AS upper_ns, CAST(`count` AS BIGINT) AS n
FROM $BINS;
CREATE OR REPLACE VIEW intervals AS
SELECT coalesce(toString(host), '') AS host, toString(subject) AS subject, CAST(period_ns AS BIGINT) AS period_ns,
       coalesce(toString(runtime), '') AS runtime, substr(coalesce(toString(start), ''), 1, 13) AS hour,
       coalesce(regexp_extract(toString(labels), '(^|;)$LABEL=([^;]*)', 2), '') AS label, CAST(ticks AS BIGINT) AS ticks,
       CAST(skipped AS BIGINT) AS skipped, CAST(missed AS BIGINT) AS missed, CAST(early AS BIGINT) AS early,
       CAST(max_ns AS Nullable(BIGINT)) AS max_ns
FROM $INTERVALS;
CREATE OR REPLACE VIEW parameters AS SELECT '$LABEL' AS label_key, CAST($LIMIT_NS AS BIGINT) AS limit_ns;
