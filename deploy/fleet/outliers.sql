-- Hosts that differ from their group: at least 3 % of their ticks are later than the group's p99; 1 % is expected.
-- Percentiles are not compared, since one noisy host among ten moves the group's p99 to its own.
WITH merged AS (
  SELECT label, subject, period_ns, runtime, upper_ns, sum(n) AS counted
  FROM bins
  GROUP BY label, subject, period_ns, runtime, upper_ns
), running AS (
  SELECT label, subject, period_ns, runtime, upper_ns,
         sum(counted) OVER (PARTITION BY label, subject, period_ns, runtime ORDER BY upper_ns
                            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS below,
         sum(counted) OVER (PARTITION BY label, subject, period_ns, runtime) AS total
  FROM merged
), group_percentiles AS (
  SELECT label, subject, period_ns, runtime, min(CASE WHEN below * 100 >= total * 99 THEN upper_ns END) AS group_p99_ns
  FROM running
  GROUP BY label, subject, period_ns, runtime
), host_counts AS (
  SELECT b.label AS label, b.host AS host, b.subject AS subject, b.period_ns AS period_ns, b.runtime AS runtime,
         max(g.group_p99_ns) AS p99_of_group_ns, sum(b.n) AS came,
         sum(CASE WHEN b.upper_ns > g.group_p99_ns THEN b.n ELSE 0 END) AS later
  FROM bins AS b
  JOIN group_percentiles AS g
    ON b.label = g.label AND b.subject = g.subject AND b.period_ns = g.period_ns AND b.runtime = g.runtime
  GROUP BY b.label, b.host, b.subject, b.period_ns, b.runtime
)
SELECT label, host, subject, period_ns, runtime, p99_of_group_ns, came, later, CAST(later AS DOUBLE) / CAST(came AS DOUBLE) AS share
FROM host_counts
WHERE later * 100 >= came * 3
ORDER BY share DESC, label, host, subject, period_ns, runtime
