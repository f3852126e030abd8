-- Number of ticks that came within the limit, by label, hour and subject. It is at least the number in bins that end within
-- the limit, and at most the number in bins that begin within it. If the limit is the end of a bin, both are equal.
SELECT b.label AS label, b.hour AS hour, b.subject AS subject, b.period_ns AS period_ns, b.runtime AS runtime,
       sum(b.n) AS came,
       sum(CASE WHEN b.upper_ns <= p.limit_ns THEN b.n ELSE 0 END) AS within_at_least,
       sum(CASE WHEN b.lower_ns <= p.limit_ns THEN b.n ELSE 0 END) AS within_at_most
FROM bins AS b CROSS JOIN parameters AS p
GROUP BY b.label, b.hour, b.subject, b.period_ns, b.runtime
ORDER BY label, hour, subject, period_ns, runtime
