-- Views for ClickHouse, clickhouse-local and chDB. $BINS and $INTERVALS are table functions, or tables with the same columns.
-- All columns must be read as text, since a start that is converted to a time is written differently.
--   file('logs/**/*.bins.csv*', CSVWithNames, 'host Nullable(String), subject Nullable(String), period_ns Nullable(String),
--     runtime Nullable(String), labels Nullable(String), start Nullable(String), duration_ns Nullable(String),
--     run_id Nullable(String), schema_version Nullable(String), binning Nullable(String), lower_ns Nullable(String),
--     upper_ns Nullable(String), count Nullable(String)')
-- or s3(…), url(…) with the same columns. For *.intervals.csv*, the columns after schema_version are ticks, delivered,
-- coalesced, skipped, missed, early, max_ns, cpu_ns, steal_ns, run_queue_ns and throttled_ns.
-- $LABEL is the label to group by, such as rack. $LIMIT_NS is a lateness, such as 1000000.
-- $LABEL_PATTERN is that label in a regular expression, with each dot written as [.].
CREATE OR REPLACE VIEW bins AS
SELECT coalesce(toString(host), '') AS host, toString(subject) AS subject, CAST(period_ns AS BIGINT) AS period_ns,
       coalesce(toString(runtime), '') AS runtime, substr(coalesce(toString(start), ''), 1, 13) AS hour,
       coalesce(regexp_extract(toString(labels), '(^|;)$LABEL_PATTERN=([^;]*)', 2), '') AS label, toString(binning) AS binning,
       CAST(lower_ns AS BIGINT) AS lower_ns, CAST(upper_ns AS BIGINT) AS upper_ns, CAST(`count` AS BIGINT) AS n
FROM $BINS;
CREATE OR REPLACE VIEW intervals AS
SELECT coalesce(toString(host), '') AS host, toString(subject) AS subject, CAST(period_ns AS BIGINT) AS period_ns,
       coalesce(toString(runtime), '') AS runtime, substr(coalesce(toString(start), ''), 1, 13) AS hour,
       coalesce(regexp_extract(toString(labels), '(^|;)$LABEL_PATTERN=([^;]*)', 2), '') AS label, CAST(ticks AS BIGINT) AS ticks,
       CAST(skipped AS Nullable(BIGINT)) AS skipped, CAST(missed AS Nullable(BIGINT)) AS missed,
       CAST(early AS Nullable(BIGINT)) AS early,
       CAST(max_ns AS Nullable(BIGINT)) AS max_ns
FROM $INTERVALS;
CREATE OR REPLACE VIEW parameters AS SELECT '$LABEL' AS label_key, CAST($LIMIT_NS AS BIGINT) AS limit_ns;
