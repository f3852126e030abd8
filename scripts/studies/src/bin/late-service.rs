//! A service with a metered loop that is late for one of four causes, which `CAUSE` selects: a long poll in its own task, another
//! task on its only worker, `block_in_place`, or a destructor.
use std::collections::BTreeMap;
use std::time::Duration;

use tickmeter::Meter;

const PERIOD: Duration = Duration::from_millis(10);
const TICKS_PER_CAUSE: u64 = 30;

mod work {
    use std::collections::BTreeMap;
    #[inline(never)]
    pub fn parse_orders(rounds: u64) -> u64 {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for round in 0..rounds {
            for byte in round.to_string().bytes() {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x1000_0000_01b3);
            }
        }
        hash
    }
    #[inline(never)]
    pub fn rebuild_index(entries: u64) -> usize {
        let mut index: BTreeMap<u64, String> = BTreeMap::new();
        for n in 0..entries {
            index.insert(n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20, format!("entry {n}"));
        }
        index.values().map(String::len).sum()
    }
    #[inline(never)]
    pub fn compress_log(bytes: usize) -> u32 {
        let mut table = vec![0_u8; bytes];
        let mut crc = 0_u32;
        for (n, byte) in table.iter_mut().enumerate() {
            *byte = (n * 7) as u8;
            crc = crc.rotate_left(5) ^ u32::from(*byte);
            for _ in 0..4 {
                crc = (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
            }
        }
        crc
    }
}

struct Session {
    orders: BTreeMap<u64, Vec<String>>,
    closing: u64,
}
impl Drop for Session {
    #[inline(never)]
    fn drop(&mut self) {
        let mut sum = 0_u64;
        for n in 0..self.closing {
            sum = sum.wrapping_add(n.wrapping_mul(sum | 1).rotate_left(7));
        }
        std::hint::black_box(sum);
        self.orders.clear();
    }
}

async fn handle(cause: u64, background: &tokio::sync::mpsc::UnboundedSender<u64>) {
    match cause {
        0 => drop(std::hint::black_box(work::parse_orders(2_400_000))),
        1 => background.send(200_000).unwrap(),
        2 => drop(tokio::task::block_in_place(|| {
            std::hint::black_box(work::compress_log((8_000_000) as usize))
        })),
        _ => drop(Session { orders: BTreeMap::new(), closing: 32_000_000 }),
    }
}

async fn run_background(mut jobs: tokio::sync::mpsc::UnboundedReceiver<u64>) {
    while let Some(entries) = jobs.recv().await {
        std::hint::black_box(work::rebuild_index(entries));
    }
}

fn main() {
    let cause = std::env::var("CAUSE")
        .ok()
        .and_then(|text| text.parse().ok())
        .expect("CAUSE is from 0 to 3");
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build();
    runtime.expect("a runtime").block_on(run_service(cause));
}

async fn run_service(cause: u64) {
    let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(run_background(receiver));
    let looped = tokio::spawn(async move {
        let meter = Meter::register("control-loop", PERIOD).expect("a meter");
        let mut interval = meter.wrap(tokio::time::interval(PERIOD));
        for tick in 1_u64.. {
            interval.tick().await;
            if tick % TICKS_PER_CAUSE == 0 {
                handle(cause, &sender).await;
            }
        }
    });
    looped.await.expect("it runs until the process is stopped");
}
