-- How many ticks came within the limit, by label, hour and subject: at least those whose whole bin is within it, at most
-- those whose bin begins within it. Choose a limit that ends a bin, and both are one.
SELECT b.label AS label, b.hour AS hour, b.subject AS subject, b.period_ns AS period_ns, b.runtime AS runtime,
       sum(b.n) AS came,
       sum(CASE WHEN b.upper_ns <= p.limit_ns THEN b.n ELSE 0 END) AS within_at_least,
       sum(CASE WHEN b.lower_ns <= p.limit_ns THEN b.n ELSE 0 END) AS within_at_most
FROM bins AS b CROSS JOIN parameters AS p
GROUP BY b.label, b.hour, b.subject, b.period_ns, b.runtime
ORDER BY label, hour, subject, period_ns, runtime
