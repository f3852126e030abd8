"""Makes a report of many ticks out of a real one: SOURCE SUBJECTS TICKS, to standard output. Its numbers are drawn, not
measured; what it is for is weight."""
import copy, json, random, sys

source, subjects, ticks = json.load(open(sys.argv[1])), int(sys.argv[2]), int(sys.argv[3])
template = source["subjects"][0]
random.seed(1)
per_round, period = 250, template["period_ns"]
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
        now["summary"]["lateness_ns"] |= {"p50": sorted(late)[per_round // 2], "max": max(late), "min": min(late)}
        # Every third subject skips ticks: their indices weigh too.
        if n % 3 == 0:
            now["tick"] = [now["first_tick"] + k * 3 // 2 for k in range(per_round)]
        subject["rounds"].append(now)
    everything.sort()
    rank = lambda q: everything[min(ticks - 1, int(q * ticks))]
    subject["summary"]["ticks"] = subject["summary"]["delivered"] = ticks
    subject["summary"]["lateness_ns"] = {
        "min": everything[0], "mean": sum(everything) // ticks, "p50": rank(0.5), "p90": rank(0.9), "p99": rank(0.99),
        "p99_9": rank(0.999), "p99_99": rank(0.9999), "max": everything[-1], "ci95": {},
    }
    subject["histogram"]["count"] = ticks
    report["subjects"].append(subject)
json.dump(report, sys.stdout, separators=(",", ":"))
