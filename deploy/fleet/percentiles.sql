-- Percentiles by label, hour and subject. They are integers, never below the exact percentiles, and less than a bin above.
WITH merged AS (
  SELECT label, hour, subject, period_ns, runtime, upper_ns, sum(n) AS counted
  FROM bins
  GROUP BY label, hour, subject, period_ns, runtime, upper_ns
), running AS (
  SELECT label, hour, subject, period_ns, runtime, upper_ns,
         sum(counted) OVER (PARTITION BY label, hour, subject, period_ns, runtime ORDER BY upper_ns
                            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS below,
         sum(counted) OVER (PARTITION BY label, hour, subject, period_ns, runtime) AS total
  FROM merged
)
SELECT label, hour, subject, period_ns, runtime, max(total) AS came,
       min(CASE WHEN below * 10 >= total * 5 THEN upper_ns END) AS p50_ns,
       min(CASE WHEN below * 10 >= total * 9 THEN upper_ns END) AS p90_ns,
       min(CASE WHEN below * 100 >= total * 99 THEN upper_ns END) AS p99_ns,
       min(CASE WHEN below * 1000 >= total * 999 THEN upper_ns END) AS p99_9_ns,
       max(upper_ns) AS max_ns
FROM running
GROUP BY label, hour, subject, period_ns, runtime
ORDER BY label, hour, subject, period_ns, runtime
