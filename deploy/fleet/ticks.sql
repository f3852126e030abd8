-- Counts of planned, skipped, missed and early ticks by label, hour and subject. A skipped tick has no lateness, so no
-- percentile shows it.
SELECT label, hour, subject, period_ns, runtime, count(DISTINCT host) AS hosts, sum(ticks) AS planned,
       sum(skipped) AS never_came, sum(missed) AS not_in_time, sum(early) AS before_time, max(max_ns) AS latest_ns
FROM intervals
GROUP BY label, hour, subject, period_ns, runtime
ORDER BY label, hour, subject, period_ns, runtime
