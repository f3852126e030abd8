"""Scrapes real monitors with Debian's Prometheus: python prometheus.py WORK OSJITTER

Two monitors serve and log the meters of a ticking program each. Two servers scrape both monitors: one uses native histograms, the
other classic ones. The programs are then stopped, so that the number of ticks is fixed. The counts of each server must equal those
of the interval files, and quantiles of both monitors together, by native histograms, must be within 1 % of those of the merged bins.
"""
import csv, json, os, signal, socket, subprocess, sys, time, urllib.parse, urllib.request
from pathlib import Path

work, osjitter = Path(sys.argv[1]), str(Path(sys.argv[2]).resolve())
METERS = ("os-interval@2ms/current-thread", "nanosleep@2ms")
MIN_TICKS, MAX_ERROR, TIMEOUT_S = 1_500, 0.01, 60
QUANTILES = (0.1, 0.5, 0.9, 0.99, 0.999)
LATENESS = "osjitter_lateness_seconds"
OPENMETRICS = "application/openmetrics-text;version=1.0.0"
PROTOBUF = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
processes = []


def start(command, log, **options):
    processes.append(subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log.open("w"), **options))
    return processes[-1]


def wait_until(condition, poll):
    """Calls `poll` until its result is not None, and returns that; `condition` describes the wait in errors."""
    start = time.monotonic()
    while (result := poll()) is None:
        assert time.monotonic() - start < TIMEOUT_S, f"not within {TIMEOUT_S} s: {condition}"
        assert all(process.poll() is None for process in processes), f"a process ended while waiting until {condition}"
        time.sleep(0.1)
    return result


def get(url, accept="*/*"):
    with urllib.request.urlopen(urllib.request.Request(url, headers={"Accept": accept}), timeout=10) as response:
        return response.headers["Content-Type"], response.read()


class Monitor:
    """A monitor and the program whose meters it watches."""

    def __init__(self, n):
        self.log, self.stderr = work / f"log-{n}", work / f"monitor-{n}.log"
        environment = {**os.environ, "TICKMETER_DIR": str(work / f"meters-{n}")}
        common = [osjitter, "monitor", "--budget", "400%", "--duration", "5m"]
        self.program = start([*common, "--no-meters", "--period", "2ms", "--log", work / f"ticking-{n}"], work / f"ticking-{n}.log", env=environment)
        self.process = start([*common, "--no-probes", "--host", f"host-{n}", "--interval", "2s", "--listen", "0", "--log", self.log], self.stderr, env=environment)
        self.url = wait_until("a monitor listens", self.find_url)
        self.target = self.url.split("/")[2]

    def find_url(self):
        lines = self.stderr.read_text().splitlines()
        return next((line.removeprefix("metrics: ") for line in lines if line.startswith("metrics: ")), None)

    def counts(self):
        """Returns the ticks of each meter, as the monitor serves them."""
        content_type, text = get(self.url, OPENMETRICS)
        assert content_type.startswith("application/openmetrics-text"), content_type
        lines = [line for line in text.decode().splitlines() if line.startswith(f"{LATENESS}_count")]
        return {line.split('meter="')[1].split('"')[0]: float(line.split()[-1]) for line in lines}

    def bins(self):
        """Returns the counts of each meter by the upper ends of its bins, from the interval files."""
        counts = {}
        for file in self.log.glob("*/*.bins.csv"):
            for row in csv.DictReader(file.open()):
                bins = counts.setdefault(row["subject"], {})
                bins[int(row["upper_ns"])] = bins.get(int(row["upper_ns"]), 0) + int(row["count"])
        return counts


class Server:
    """A Prometheus server that scrapes all targets."""

    def __init__(self, name, targets, *flags):
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{listener.getsockname()[1]}"
        scrape = {"job_name": "osjitter", "scrape_interval": "1s", "static_configs": [{"targets": targets}]}
        config = work / f"{name}.yml"
        config.write_text(json.dumps({"scrape_configs": [scrape]}))
        storage = [f"--storage.tsdb.path={work / name}", "--storage.tsdb.min-block-duration=2h"]
        start(["prometheus", f"--config.file={config}", *storage, f"--web.listen-address={self.address}", "--log.level=warn", *flags], work / f"{name}.log")

    def query(self, expression):
        """Returns the values by meter; an empty dictionary while the server is not ready."""
        try:
            _, response = get(f"http://{self.address}/api/v1/query?{urllib.parse.urlencode({'query': expression})}")
        except OSError:
            return {}
        result = json.loads(response)["data"]["result"]
        return {series["metric"].get("meter"): float(series["value"][1]) for series in result}

    def counts(self, expression):
        return self.query(f"sum by (meter) ({expression})")


def add_counts(all_counts):
    total = {}
    for counts in all_counts:
        for key, count in counts.items():
            total[key] = total.get(key, 0) + count
    return total


def quantile(bins, q):
    """Returns the nearest-rank quantile in seconds, as the upper end of its bin."""
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
    total_counts = lambda: add_counts(monitor.counts() for monitor in monitors)
    enough_ticks = lambda: True if set(counts := total_counts()) == set(METERS) and min(counts.values()) >= MIN_TICKS else None
    wait_until("each meter has enough ticks", enough_ticks)
    for monitor in monitors:
        monitor.program.send_signal(signal.SIGSTOP)
    # A monitor may serve counts that are a second old.
    time.sleep(1.2)
    counts = total_counts()
    check_counts = lambda server, expression: wait_until(f"{expression} is {counts}", lambda: server.counts(expression) == counts or None)
    check_counts(native, f"histogram_count({LATENESS})")
    check_counts(classic, f'{LATENESS}_bucket{{le="+Inf"}}')
    check_counts(classic, f"{LATENESS}_count")
    content_type, message = get(monitors[0].url, PROTOBUF)
    assert content_type.startswith("application/vnd.google.protobuf") and message, content_type
    quantiles = {q: native.query(f"histogram_quantile({q}, sum by (meter) ({LATENESS}))") for q in QUANTILES}
    shares = {name: server.query(expression) for name, server, expression in (
        ("native", native, f"histogram_fraction(-Inf, 0.001, sum by (meter) ({LATENESS}))"),
        ("classic", classic, f'sum by (meter) ({LATENESS}_bucket{{le="0.001"}}) / sum by (meter) ({LATENESS}_count)'))}
    sums = [server.counts(expression) for server, expression in ((native, f"histogram_sum({LATENESS})"), (classic, f"{LATENESS}_sum"))]
    for monitor in monitors:
        monitor.process.terminate()
        assert monitor.process.wait(TIMEOUT_S) == 0

    files = [monitor.bins() for monitor in monitors]
    for meter in METERS:
        bins = add_counts(bins[meter] for bins in files)
        assert sum(bins.values()) == counts[meter], (meter, sum(bins.values()), counts)
        for q in QUANTILES:
            exact, found = quantile(bins, q), quantiles[q][meter]
            assert abs(found / exact - 1) <= MAX_ERROR, (meter, q, exact, found)
            print(f"{meter}: p{q * 100:g} of {counts[meter]:.0f} ticks is {found * 1e6:.2f} us, in the files {exact * 1e6:.2f} us: {found / exact - 1:+.2%}")
        exact = sum(count for upper, count in bins.items() if upper <= 1_000_000) / sum(bins.values())
        assert all(abs(share[meter] - exact) < 0.01 for share in shares.values()), (meter, exact, shares)
        assert abs(sums[0][meter] / sums[1][meter] - 1) < 1e-9, sums
    # The check must fail for a wrong value, here another quantile.
    assert abs(quantiles[0.5][METERS[0]] / quantile(add_counts(bins[METERS[0]] for bins in files), 0.9) - 1) > MAX_ERROR
    print("Prometheus: the native and classic histograms of two monitors have the counts of their files")


check_start = time.monotonic()
try:
    check()
except BaseException:
    for log in sorted(work.glob("*.log")):
        print(f"--- {log.name}\n{log.read_text()[-2_000:]}", file=sys.stderr)
    raise
finally:
    for process in processes:
        process.kill()
    for process in processes:
        process.wait()
print(f"took {time.monotonic() - check_start:.0f} s")
