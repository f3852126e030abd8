-- Sums of the bins by label and hour, with the columns of osjitter.bins/1. If the result is written to NAME.bins.csv, osjitter
-- can read it, and the same queries give equal results. It contains no hosts, so keep the details while you look for outliers.
SELECT '' AS host, r.subject AS subject, r.period_ns AS period_ns, r.runtime AS runtime,
       CASE WHEN r.label = '' THEN '' ELSE concat(p.label_key, '=', r.label) END AS labels,
       CASE WHEN r.hour = '' THEN '' ELSE concat(r.hour, ':00:00.000000Z') END AS start,
       CASE WHEN r.hour = '' THEN 0 ELSE 3600000000000 END AS duration_ns,
       '' AS run_id, 1 AS schema_version, r.binning AS binning, r.lower_ns AS lower_ns, r.upper_ns AS upper_ns,
       r.counted AS "count"
FROM (
  SELECT label, hour, subject, period_ns, runtime, binning, lower_ns, upper_ns, sum(n) AS counted
  FROM bins
  GROUP BY label, hour, subject, period_ns, runtime, binning, lower_ns, upper_ns
) AS r CROSS JOIN parameters AS p
ORDER BY labels, start, subject, period_ns, runtime, binning, lower_ns
