"""Makes a large report from a real one, to test pages with many ticks: big_report.py SOURCE SUBJECTS TICKS

Writes the report to standard output. Its lateness is random, not measured.
"""
import copy, json, random, sys

source, subjects, ticks = json.load(open(sys.argv[1])), int(sys.argv[2]), int(sys.argv[3])
template = source["subjects"][0]
random.seed(1)
per_round, period = 250, template["period_ns"]


def summarise(summary, values):
    """Summarizes ticks that all came; a percentile is None if fewer than five ticks are above it."""
    ranked, n = sorted(values), len(values)
    rank = lambda q: ranked[-int(-q * n // 1) - 1] if n * (1 - q) >= 5 else None
    percentiles = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99_9": 0.999, "p99_99": 0.9999}
    return {
        **summary, "ticks": n, "delivered": n, "coalesced": 0, "skipped": 0, "missed": 0, "early": 0, "no_park": 0,
        "median_round_ns": {}, "jitter_consecutive_ns": None, "jitter_spread_ns": None, "until_unpark_ns": None,
        "after_unpark_ns": None,
        "lateness_ns": {"min": ranked[0], "mean": sum(ranked) // n, "max": ranked[-1], "ci95": {}}
        | {name: rank(q) for name, q in percentiles.items()},
    }


report = {**source, "subjects": []}
for n in range(subjects):
    subject = copy.deepcopy(template)
    subject["id"], subject["name"] = f"random-{n}", f"random-{n}"
    subject["rounds"], all_lateness = [], []
    for index in range(ticks // per_round):
        lateness = [int(random.lognormvariate(8 + n % 5, 0.6)) for _ in range(per_round)]
        if random.random() < 0.1:
            lateness[random.randrange(per_round)] += random.randrange(10**7)
        all_lateness += lateness
        record = copy.deepcopy(template["rounds"][0])
        record["index"], record["lateness_ns"] = index, lateness
        record["start_ns"] = (index * subjects + n) * per_round * period
        record["until_unpark_ns"] = [v - v // 10 for v in lateness]
        record["summary"] = summarise(record["summary"], lateness)
        # Every third subject skips ticks, so its indices need space as well.
        if n % 3 == 0:
            record["tick"] = [record["first_tick"] + k * 3 // 2 for k in range(per_round)]
        subject["rounds"].append(record)
    subject["summary"] = summarise(subject["summary"], all_lateness)
    # The samples contain the same information.
    subject["histogram"] = None
    report["subjects"].append(subject)
json.dump(report, sys.stdout, separators=(",", ":"))
