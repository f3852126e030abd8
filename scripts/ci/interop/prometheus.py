"""Debian's Prometheus scrapes real monitors: python prometheus.py WORK OSJITTER

Two monitors serve and log the meters of a ticking program each. Two servers scrape both: one takes native histograms, the other
classic ones. The programs are stopped, so that everybody sees the same ticks. Then the counts of each server are those of the
interval files, and quantiles of both monitors together, by native histograms, are within 1 % of those of the merged bins."""
import csv, json, os, signal, socket, subprocess, sys, time, urllib.parse, urllib.request
from pathlib import Path

work, osjitter = Path(sys.argv[1]), str(Path(sys.argv[2]).resolve())
METERS = ("os-interval@2ms/current-thread", "nanosleep@2ms")
TICKS, WITHIN, PATIENCE = 1_500, 0.01, 60
QUANTILES = (0.1, 0.5, 0.9, 0.99, 0.999)
LATENESS = "osjitter_lateness_seconds"
OPENMETRICS = "application/openmetrics-text;version=1.0.0"
PROTOBUF = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
started = []


def start(command, said, **more):
    started.append(subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said.open("w"), **more))
    return started[-1]


def awaited(what, poll):
    """What the poll returns, once that is not None."""
    began = time.monotonic()
    while (found := poll()) is None:
        assert time.monotonic() - began < PATIENCE, f"{what}: not within {PATIENCE} s"
        assert all(process.poll() is None for process in started), f"something has ended while waiting until {what}"
        time.sleep(0.1)
    return found


def get(url, accept="*/*"):
    with urllib.request.urlopen(urllib.request.Request(url, headers={"Accept": accept}), timeout=10) as answer:
        return answer.headers["Content-Type"], answer.read()


class Monitor:
    """A monitor, and the program whose meters it watches."""

    def __init__(self, n):
        self.log, self.said = work / f"log-{n}", work / f"monitor-{n}.log"
        environment = {**os.environ, "TICKMETER_DIR": str(work / f"meters-{n}")}
        common = [osjitter, "monitor", "--budget", "400%", "--duration", "5m"]
        self.ticking = start([*common, "--no-meters", "--period", "2ms", "--log", work / f"ticking-{n}"], work / f"ticking-{n}.log", env=environment)
        self.process = start([*common, "--no-probes", "--host", f"host-{n}", "--interval", "2s", "--listen", "0", "--log", self.log], self.said, env=environment)
        self.url = awaited("a monitor listens", self.listens)
        self.target = self.url.split("/")[2]

    def listens(self):
        lines = self.said.read_text().splitlines()
        return next((line.removeprefix("metrics: ") for line in lines if line.startswith("metrics: ")), None)

    def counts(self):
        """Ticks of each meter, as it serves them."""
        kind, text = get(self.url, OPENMETRICS)
        assert kind.startswith("application/openmetrics-text"), kind
        lines = [line for line in text.decode().splitlines() if line.startswith(f"{LATENESS}_count")]
        return {line.split('meter="')[1].split('"')[0]: float(line.split()[-1]) for line in lines}

    def bins(self):
        """Counts of each meter by the upper ends of its bins, from the interval files."""
        counts = {}
        for file in self.log.glob("*/*.bins.csv"):
            for row in csv.DictReader(file.open()):
                of = counts.setdefault(row["subject"], {})
                of[int(row["upper_ns"])] = of.get(int(row["upper_ns"]), 0) + int(row["count"])
        return counts


class Server:
    """A Prometheus that scrapes them all."""

    def __init__(self, name, targets, *flags):
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{listener.getsockname()[1]}"
        scrape = {"job_name": "osjitter", "scrape_interval": "1s", "static_configs": [{"targets": targets}]}
        config = work / f"{name}.yml"
        config.write_text(json.dumps({"scrape_configs": [scrape]}))
        storage = [f"--storage.tsdb.path={work / name}", "--storage.tsdb.min-block-duration=2h"]
        start(["prometheus", f"--config.file={config}", *storage, f"--web.listen-address={self.address}", "--log.level=warn", *flags], work / f"{name}.log")

    def ask(self, query):
        """Values by meter; none while the server does not answer."""
        try:
            _, answer = get(f"http://{self.address}/api/v1/query?{urllib.parse.urlencode({'query': query})}")
        except OSError:
            return {}
        result = json.loads(answer)["data"]["result"]
        return {series["metric"].get("meter"): float(series["value"][1]) for series in result}

    def counts(self, what):
        return self.ask(f"sum by (meter) ({what})")


def added(counts):
    total = {}
    for of in counts:
        for key, count in of.items():
            total[key] = total.get(key, 0) + count
    return total


def quantile(bins, q):
    """The nearest rank's, to the end of its bin."""
    rank, below = -(-q * sum(bins.values()) // 1), 0
    for upper, count in sorted(bins.items()):
        below += count
        if below >= rank:
            return upper / 1e9


def check():
    monitors = [Monitor(n) for n in range(2)]
    targets = [monitor.target for monitor in monitors]
    native = Server("native", targets, "--enable-feature=native-histograms")
    classic = Server("classic", targets)
    both = lambda: added(monitor.counts() for monitor in monitors)
    ticked = lambda: both() if set(counts := both()) == set(METERS) and min(counts.values()) >= TICKS else None
    awaited("there are ticks enough", ticked)
    for monitor in monitors:
        monitor.ticking.send_signal(signal.SIGSTOP)
    # What a scrape sees may be a second old.
    time.sleep(1.2)
    counts = both()
    agrees = lambda server, what: awaited(f"{what} is {counts}", lambda: server.counts(what) == counts or None)
    agrees(native, f"histogram_count({LATENESS})")
    agrees(classic, f'{LATENESS}_bucket{{le="+Inf"}}')
    agrees(classic, f"{LATENESS}_count")
    kind, message = get(monitors[0].url, PROTOBUF)
    assert kind.startswith("application/vnd.google.protobuf") and message, kind
    quantiles = {q: native.ask(f"histogram_quantile({q}, sum by (meter) ({LATENESS}))") for q in QUANTILES}
    shares = {name: server.ask(query) for name, server, query in (
        ("native", native, f"histogram_fraction(-Inf, 0.001, sum by (meter) ({LATENESS}))"),
        ("classic", classic, f'sum by (meter) ({LATENESS}_bucket{{le="0.001"}}) / sum by (meter) ({LATENESS}_count)'))}
    sums = [server.counts(what) for server, what in ((native, f"histogram_sum({LATENESS})"), (classic, f"{LATENESS}_sum"))]
    for monitor in monitors:
        monitor.process.terminate()
        assert monitor.process.wait(PATIENCE) == 0

    files = [monitor.bins() for monitor in monitors]
    for meter in METERS:
        bins = added(of[meter] for of in files)
        assert sum(bins.values()) == counts[meter], (meter, sum(bins.values()), counts)
        for q in QUANTILES:
            exact, found = quantile(bins, q), quantiles[q][meter]
            assert abs(found / exact - 1) <= WITHIN, (meter, q, exact, found)
            print(f"{meter}: p{q * 100:g} of {counts[meter]:.0f} ticks is {found * 1e6:.2f} us, and {exact * 1e6:.2f} us in the files: {found / exact - 1:+.2%}")
        exact = sum(count for upper, count in bins.items() if upper <= 1_000_000) / sum(bins.values())
        assert all(abs(of[meter] - exact) < 0.01 for of in shares.values()), (meter, exact, shares)
        assert abs(sums[0][meter] / sums[1][meter] - 1) < 1e-9, sums
    # What is no error must show one: a quantile of something else.
    assert abs(quantiles[0.5][METERS[0]] / quantile(added(of[METERS[0]] for of in files), 0.9) - 1) > WITHIN
    print("Prometheus: native and classic histograms of two monitors have the counts of their files")


began = time.monotonic()
try:
    check()
except BaseException:
    for said in sorted(work.glob("*.log")):
        print(f"--- {said.name}\n{said.read_text()[-2_000:]}", file=sys.stderr)
    raise
finally:
    for process in started:
        process.kill()
    for process in started:
        process.wait()
print(f"took {time.monotonic() - began:.0f} s")
