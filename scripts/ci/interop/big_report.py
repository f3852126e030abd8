"""Makes a report of many ticks out of a real one: SOURCE SUBJECTS TICKS, to standard output. Its numbers are drawn, not
measured; what it is for is weight."""
import copy, json, random, sys

source, subjects, ticks = json.load(open(sys.argv[1])), int(sys.argv[2]), int(sys.argv[3])
template = source["subjects"][0]
random.seed(1)
per_round, period = 250, template["period_ns"]


def summarise(summary, values):
    """Every value on time and by itself; of the percentiles, those that so many values carry."""
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
    subject["id"], subject["name"] = f"drawn-{n}", f"drawn-{n}"
    subject["rounds"], everything = [], []
    for index in range(ticks // per_round):
        late = [int(random.lognormvariate(8 + n % 5, 0.6)) for _ in range(per_round)]
        if random.random() < 0.1:
            late[random.randrange(per_round)] += random.randrange(10**7)
        everything += late
        now = copy.deepcopy(template["rounds"][0])
        now["index"], now["lateness_ns"] = index, late
        now["start_ns"] = (index * subjects + n) * per_round * period
        now["until_unpark_ns"] = [v - v // 10 for v in late]
        now["summary"] = summarise(now["summary"], late)
        # Every third subject skips ticks: their indices weigh too.
        if n % 3 == 0:
            now["tick"] = [now["first_tick"] + k * 3 // 2 for k in range(per_round)]
        subject["rounds"].append(now)
    subject["summary"] = summarise(subject["summary"], everything)
    # Its samples say the same.
    subject["histogram"] = None
    report["subjects"].append(subject)
json.dump(report, sys.stdout, separators=(",", ":"))
