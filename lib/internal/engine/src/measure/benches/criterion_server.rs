//! The connection by which Criterion.rs reports to the program that runs it.
//!
//! Criterion connects to a port of localhost if `CARGO_CRITERION_PORT` names one, as it does under
//! cargo-criterion. It then sends every benchmark with its samples, and writes no file. It also
//! converts values to the unit of its measurement. Criterion 0.3.3 was the first version to connect.
//!
//! Every program on the machine can connect to the port. On Linux, only connections of the user of
//! this process are served. A program that runs as another user writes its files instead, as it does
//! if it cannot connect.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use serde::Deserialize;

use super::bench_samples::MAX_BENCHES;
use super::cbor;
use super::{BenchOutputError, MAX_OUTPUT_BYTES};

/// Variable with the port to which Criterion connects.
pub const ENV_PORT: &str = "CARGO_CRITERION_PORT";
/// First bytes of a connection, followed by a version.
const RUNNER_HELLO: &[u8] = b"cargo-criterion\x01\x00\x00";
/// First bytes of the answer.
const CRITERION_NAME: &[u8] = b"Criterion";
/// Length of the answer: the name, three bytes of version, the version and format of the protocol.
const HELLO_LENGTH: usize = 16;
/// Maximum number of connections that are open at once.
pub(super) const MAX_CONNECTIONS: usize = 64;
/// Maximum size that is reserved for a message before it arrives.
const RESERVED_BYTES: u32 = 64 << 10;
/// The message after which Criterion continues.
const CONTINUE: &[u8] = b"\x68Continue";

/// A version of Criterion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CriterionVersion {
    pub major: u8,
    pub minor: u8,
}

/// All that Criterion sent in a run.
#[derive(Clone, Debug, Default)]
pub struct CriterionTalk {
    /// Version of the last Criterion that connected.
    pub version: Option<CriterionVersion>,
    /// Benchmarks that began, in this order.
    pub(super) begun: Vec<BenchmarkId>,
    pub(super) completed: Vec<CompletedBench>,
    pub(super) error: Option<BenchOutputError>,
}

impl CriterionTalk {
    pub(super) fn has_connection(&self) -> bool {
        self.version.is_some()
    }

    pub(in crate::measure) fn check(&self) -> Result<(), BenchOutputError> {
        self.error.clone().map_or(Ok(()), Err)
    }
}

/// A benchmark with its samples.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CompletedBench {
    pub id: BenchmarkId,
    /// The unit of its measurement; empty if it states none.
    pub unit: String,
    /// Value of an iteration in each sample, in this unit.
    pub samples: Vec<f64>,
}

/// The id of a benchmark.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct BenchmarkId {
    group_id: String,
    function_id: Option<String>,
    value_str: Option<String>,
    /// The work of an iteration, as the benchmark states it.
    #[serde(default)]
    pub throughput: Vec<serde_json::Value>,
}

impl BenchmarkId {
    pub fn name(&self) -> String {
        let parts = [Some(&self.group_id), self.function_id.as_ref(), self.value_str.as_ref()];
        let parts: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
        parts.join("/")
    }
}

/// A message of Criterion. Other messages do not matter.
#[derive(Debug, Deserialize)]
pub(super) enum Message {
    BeginningBenchmark { id: BenchmarkId },
    MeasurementComplete { id: BenchmarkId, iters: Vec<Option<f64>>, times: Vec<Option<f64>> },
    FinishedBenchmarkGroup {},
    ScaledValues { scaled_values: Vec<Option<f64>>, unit: String },
}

/// Parses a message; `None` for one that does not matter.
pub(super) fn parse_message(bytes: &[u8]) -> Result<Option<Message>, BenchOutputError> {
    const KNOWN: [&str; 4] =
        ["BeginningBenchmark", "MeasurementComplete", "FinishedBenchmarkGroup", "ScaledValues"];
    let value = cbor::parse(bytes).map_err(BenchOutputError::CriterionMessage)?;
    let Some((name, _)) = value.as_object().and_then(|message| message.iter().next()) else {
        return Ok(None);
    };
    if !KNOWN.contains(&name.as_str()) {
        return Ok(None);
    }
    let message = serde_json::from_value(value);
    message.map(Some).map_err(|error| BenchOutputError::CriterionJson {
        file: "a message",
        error: Arc::new(error),
    })
}

/// A server for the connections of a run.
pub struct CriterionServer {
    port: u16,
    shared: Arc<Shared>,
    listener: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    is_stopped: AtomicBool,
    state: Mutex<State>,
}

struct State {
    talk: CriterionTalk,
    /// Size of the messages that can still be received in this run.
    remaining_bytes: u64,
    /// Open connections, with the threads that serve them.
    connections: Vec<Connection>,
}

impl Default for State {
    fn default() -> Self {
        let talk = CriterionTalk::default();
        Self { talk, remaining_bytes: MAX_OUTPUT_BYTES, connections: Vec::new() }
    }
}

struct Connection {
    stream: TcpStream,
    server: JoinHandle<()>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CriterionServer {
    /// Starts a server.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no port or thread for it.
    pub fn start() -> io::Result<Self> {
        Self::start_with_check(is_own_connection)
    }

    /// Starts a server for the connections that `is_accepted` selects.
    fn start_with_check(is_accepted: fn(&TcpStream) -> bool) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let shared = Arc::new(Shared::default());
        let accepting = Arc::clone(&shared);
        let thread = std::thread::Builder::new();
        let listener =
            thread.spawn(move || accept_connections(&listener, &accepting, is_accepted))?;
        Ok(Self { port, shared, listener: Some(listener) })
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Ends all connections and returns what Criterion sent. It is complete after the program has
    /// exited, because Criterion waits for the receipt of each benchmark.
    pub fn stop(mut self) -> CriterionTalk {
        self.end();
        std::mem::take(&mut self.shared.state().talk)
    }

    fn end(&mut self) {
        let Some(listener) = self.listener.take() else { return };
        self.shared.is_stopped.store(true, Ordering::SeqCst);
        // Wakes the listener, which then finds the flag.
        if TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_ok() {
            let _ = listener.join();
        }
        let connections = std::mem::take(&mut self.shared.state().connections);
        for Connection { stream, server } in connections {
            // A connection that the program has closed cannot be closed again.
            let _ = stream.shutdown(Shutdown::Both);
            let _ = server.join();
        }
    }
}

impl Drop for CriterionServer {
    fn drop(&mut self) {
        self.end();
    }
}

fn accept_connections(
    listener: &TcpListener,
    shared: &Arc<Shared>,
    is_accepted: fn(&TcpStream) -> bool,
) {
    while let Ok((stream, _)) = listener.accept() {
        if shared.is_stopped.load(Ordering::SeqCst) {
            return;
        }
        // Another user must not be able to end the run, so this is no error.
        if !is_accepted(&stream) {
            continue;
        }
        match serve_in_thread(stream, shared) {
            Ok(connection) => shared.state().connections.push(connection),
            Err(error) => record_error(shared, error),
        }
    }
}

fn serve_in_thread(
    stream: TcpStream,
    shared: &Arc<Shared>,
) -> Result<Connection, BenchOutputError> {
    let mut state = shared.state();
    state.connections.retain(|connection| !connection.server.is_finished());
    if state.connections.len() >= MAX_CONNECTIONS {
        return Err(BenchOutputError::TooManyConnections);
    }
    drop(state);
    let serving = Arc::clone(shared);
    let served = stream.try_clone().and_then(|stream| {
        let serve = move || serve(stream, &serving);
        std::thread::Builder::new().spawn(serve)
    });
    let server = served.map_err(|e| BenchOutputError::CriterionConnection(Arc::new(e)))?;
    Ok(Connection { stream, server })
}

/// Returns whether the other end of a connection belongs to the user of this process. It does if
/// the table of connections cannot be read.
#[cfg(target_os = "linux")]
fn is_own_connection(stream: &TcpStream) -> bool {
    use crate::machine::os::effective_user;
    /// The kernel can leave out a connection of a table that changes while it is read.
    const ATTEMPTS: usize = 3;
    let (Ok(address), Ok(peer)) = (stream.local_addr(), stream.peer_addr()) else { return false };
    for _ in 0..ATTEMPTS {
        let Ok(table) = std::fs::read_to_string("/proc/self/net/tcp") else { return true };
        if let Some(user) = find_user(&table, peer, address) {
            return user == effective_user();
        }
    }
    false
}

#[cfg(not(target_os = "linux"))]
fn is_own_connection(_: &TcpStream) -> bool {
    true
}

/// Finds the user of the socket at `address` that is connected to `peer` in the table
/// `/proc/net/tcp`. A socket that its process has closed has no user: the table states 0, as for
/// root.
#[cfg(target_os = "linux")]
fn find_user(
    table: &str,
    address: std::net::SocketAddr,
    peer: std::net::SocketAddr,
) -> Option<u32> {
    const ESTABLISHED: &str = "01";
    let [address, peer] = [address, peer].map(|address| match address {
        std::net::SocketAddr::V4(v4) => {
            format!("{:08X}:{:04X}", u32::from_ne_bytes(v4.ip().octets()), v4.port())
        }
        std::net::SocketAddr::V6(_) => String::new(),
    });
    table.lines().find_map(|line| {
        let mut cells = line.split_ascii_whitespace().skip(1);
        let connection = [cells.next()?, cells.next()?, cells.next()?];
        let user = cells.nth(3)?.parse().ok()?;
        (connection == [address.as_str(), peer.as_str(), ESTABLISHED]).then_some(user)
    })
}

fn record_error(shared: &Shared, error: BenchOutputError) {
    shared.state().talk.error.get_or_insert(error);
}

/// Serves a connection until its end.
fn serve(stream: TcpStream, shared: &Shared) {
    let mut conversation = Conversation { stream, shared };
    match conversation.run() {
        Ok(()) | Err(ConversationError::Ended) => {}
        Err(ConversationError::Output(error)) => record_error(shared, error),
    }
    // Criterion must not wait for a reply.
    let _ = conversation.stream.shutdown(Shutdown::Both);
}

struct Conversation<'a> {
    stream: TcpStream,
    shared: &'a Shared,
}

/// Reason for the end of a conversation.
enum ConversationError {
    /// The connection is closed.
    Ended,
    Output(BenchOutputError),
}

impl From<io::Error> for ConversationError {
    fn from(_: io::Error) -> Self {
        Self::Ended
    }
}

impl From<BenchOutputError> for ConversationError {
    fn from(error: BenchOutputError) -> Self {
        Self::Output(error)
    }
}

impl Conversation<'_> {
    fn run(&mut self) -> Result<(), ConversationError> {
        self.stream.set_nodelay(true)?;
        self.stream.write_all(RUNNER_HELLO)?;
        let mut hello = [0; HELLO_LENGTH];
        self.stream.read_exact(&mut hello)?;
        let Some([major, minor, ..]) = hello.strip_prefix(CRITERION_NAME) else { return Ok(()) };
        let version = CriterionVersion { major: *major, minor: *minor };
        self.shared.state().talk.version = Some(version);
        loop {
            match self.receive()? {
                Some(Message::BeginningBenchmark { id }) => {
                    let mut state = self.shared.state();
                    state.talk.begun.push(id);
                    if state.talk.begun.len() > MAX_BENCHES {
                        return Err(BenchOutputError::TooManyBenches.into());
                    }
                }
                Some(Message::MeasurementComplete { id, iters, times }) => {
                    let samples = values_per_iteration(&iters, &times)?;
                    let bench = self.scale(id, &samples)?;
                    self.send(CONTINUE)?;
                    let mut state = self.shared.state();
                    state.talk.completed.push(bench);
                    if state.talk.completed.len() > MAX_BENCHES {
                        return Err(BenchOutputError::TooManyBenches.into());
                    }
                }
                Some(Message::FinishedBenchmarkGroup {}) => self.send(CONTINUE)?,
                Some(Message::ScaledValues { .. }) | None => {}
            }
        }
    }

    /// Asks Criterion for the unit of its measurement, and for the values in this unit.
    fn scale(
        &mut self,
        id: BenchmarkId,
        samples: &[f64],
    ) -> Result<CompletedBench, ConversationError> {
        self.send(&scale_request(samples))?;
        match self.receive()? {
            Some(Message::ScaledValues { scaled_values, unit }) => {
                let samples = scaled_values.into_iter().map(|value| value.unwrap_or(f64::NAN));
                Ok(CompletedBench { id, unit: unit.trim().to_owned(), samples: samples.collect() })
            }
            _ => {
                let samples = samples.to_vec();
                Ok(CompletedBench { id, unit: String::new(), samples })
            }
        }
    }

    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        let length = u32::try_from(message.len()).map_err(io::Error::other)?;
        self.stream.write_all(&[&length.to_be_bytes(), message].concat())
    }

    /// Reserves the size of a message and of its length, which counts for the run even if the
    /// message does not arrive.
    fn reserve(&self, length: u64) -> Result<(), BenchOutputError> {
        let mut state = self.shared.state();
        let remaining = state.remaining_bytes.checked_sub(length + size_of::<u32>() as u64);
        let large = || BenchOutputError::LargeFile { file: "the messages of Criterion".to_owned() };
        state.remaining_bytes = remaining.ok_or_else(large)?;
        Ok(())
    }

    fn receive(&mut self) -> Result<Option<Message>, ConversationError> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        acknowledge(&self.stream);
        let length = u32::from_be_bytes(length);
        self.reserve(length.into())?;
        let mut message = Vec::with_capacity(length.min(RESERVED_BYTES) as usize);
        (&self.stream).take(length.into()).read_to_end(&mut message)?;
        if message.len() as u64 != u64::from(length) {
            return Err(ConversationError::Ended);
        }
        Ok(parse_message(&message)?)
    }
}

/// Acknowledges what was received. Criterion sends the length and the rest of a message separately,
/// and its system holds the rest back until then, for 40 ms by default.
fn acknowledge(stream: &TcpStream) {
    #[cfg(target_os = "linux")]
    let _ = rustix::net::sockopt::set_tcp_quickack(stream, true);
    #[cfg(not(target_os = "linux"))]
    let _ = stream;
}

/// Returns the value of an iteration in each sample. A number that is not finite becomes one that is
/// not valid either.
fn values_per_iteration(
    iters: &[Option<f64>],
    times: &[Option<f64>],
) -> Result<Vec<f64>, BenchOutputError> {
    if iters.len() != times.len() || iters.is_empty() {
        let (iterations, times) = (iters.len(), times.len());
        return Err(BenchOutputError::CriterionCounts { iterations, times });
    }
    let values = times.iter().zip(iters);
    Ok(values.map(|(time, iters)| time.unwrap_or(f64::NAN) / iters.unwrap_or(f64::NAN)).collect())
}

/// Encodes `{"ScaleForMachines": {"values": samples}}`.
fn scale_request(samples: &[f64]) -> Vec<u8> {
    let mut request = b"\xa1\x70ScaleForMachines\xa1\x66values\x9a".to_vec();
    request.extend(u32::try_from(samples.len()).unwrap_or(u32::MAX).to_be_bytes());
    for sample in samples {
        request.push(0xfb);
        request.extend(sample.to_bits().to_be_bytes());
    }
    request
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::benches::criterion;
    use serde_json::{Value, json};

    /// Encodes a message as Criterion does.
    fn encode(value: &Value) -> Vec<u8> {
        let head = |major_type: u8, count: usize| vec![major_type << 5 | 24, count as u8];
        match value {
            Value::Null => vec![0xf6],
            Value::String(text) => [head(3, text.len()), text.as_bytes().to_vec()].concat(),
            Value::Array(items) => {
                let items = items.iter().flat_map(encode).collect();
                [head(4, value.as_array().map_or(0, Vec::len)), items].concat()
            }
            Value::Object(map) => {
                let entries = map
                    .iter()
                    .flat_map(|(key, value)| [encode(&json!(key)), encode(value)].concat());
                [head(5, map.len()), entries.collect()].concat()
            }
            Value::Number(number) if number.is_u64() => head(0, number.as_u64().unwrap() as usize),
            Value::Number(number) => {
                [vec![0xfb], number.as_f64().unwrap().to_bits().to_be_bytes().to_vec()].concat()
            }
            Value::Bool(_) => panic!("Criterion sends no such value"),
        }
    }

    /// The side of Criterion.
    struct Client(TcpStream);

    impl Client {
        fn connect(server: &CriterionServer, minor: u8) -> Self {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port())).unwrap();
            let mut hello = [0; RUNNER_HELLO.len()];
            stream.read_exact(&mut hello).unwrap();
            assert_eq!(hello, RUNNER_HELLO);
            stream.write_all(CRITERION_NAME).unwrap();
            stream.write_all(&[0, minor, 2, 0, 1, 0, 1]).unwrap();
            Self(stream)
        }

        fn send(&mut self, message: &Value) {
            let message = encode(message);
            self.0.write_all(&(message.len() as u32).to_be_bytes()).unwrap();
            self.0.write_all(&message).unwrap();
        }

        fn receive(&mut self) -> Value {
            let mut length = [0; 4];
            self.0.read_exact(&mut length).unwrap();
            let mut message = vec![0; u32::from_be_bytes(length) as usize];
            self.0.read_exact(&mut message).unwrap();
            cbor::parse(&message).unwrap()
        }
    }

    #[test]
    fn conversation_of_criterion_is_recorded() {
        let server = CriterionServer::start().unwrap();
        let mut client = Client::connect(&server, 8);
        let id = json!({ "group_id": "g", "function_id": "f", "value_str": "1",
            "throughput": [{ "ElementsAndBytes": { "elements": 6, "bytes": 7 } }] });
        let plain = json!({ "group_id": "plain", "function_id": null, "value_str": null, "throughput": [] });
        client.send(&json!({ "BeginningBenchmarkGroup": { "group": "g" } }));
        client.send(&json!({ "BeginningBenchmark": { "id": id } }));
        client.send(&json!({ "Warmup": { "id": id, "nanos": 1.5 } }));
        let (iters, times) = (json!([1.0, 2.0]), json!([1.5, 4.0]));
        client
            .send(&json!({ "MeasurementComplete": { "id": id, "iters": iters, "times": times } }));
        let request = client.receive();
        assert_eq!(request, json!({ "ScaleForMachines": { "values": [1.5, 2.0] } }));
        client.send(&json!({ "ScaledValues": { "scaled_values": [3.0, 4.0], "unit": "J" } }));
        assert_eq!(client.receive(), json!("Continue"));
        client.send(&json!({ "FinishedBenchmarkGroup": { "group": "g" } }));
        assert_eq!(client.receive(), json!("Continue"));
        client.send(&json!({ "BeginningBenchmark": { "id": plain } }));
        // A second benchmark executable of the same run.
        let second = Client::connect(&server, 8);
        drop((client, second));

        // The connections end before the server does, so that everything sent arrives.
        while server.shared.state().talk.begun.len() < 2 {
            std::thread::yield_now();
        }
        let talk = server.stop();
        assert_eq!(talk.version, Some(CriterionVersion { major: 0, minor: 8 }));
        let mut numbers = Vec::new();
        for bench in criterion::from_talk(&talk).unwrap() {
            let bench_numbers = bench.numbers.iter();
            numbers.push((
                bench.name.clone(),
                bench_numbers
                    .map(|n| format!("{} {} {:?}", n.name, n.unit, n.samples))
                    .collect::<Vec<_>>(),
            ));
        }
        let expected =
            vec!["time J [3.0, 4.0]".to_owned(), "throughput elements/J [2.0, 1.5]".to_owned()];
        assert_eq!(numbers, [("g/f/1".to_owned(), expected), ("plain".to_owned(), vec![])]);
    }

    #[test]
    fn malformed_messages_are_errors() {
        for (message, expected) in [
            (json!({ "MeasurementComplete": { "iters": [1.0] } }), "missing field `id`"),
            (
                json!({ "MeasurementComplete": { "id": { "group_id": "g" }, "iters": [1.0], "times": [] } }),
                "1 counts of iterations for 0 times",
            ),
        ] {
            let server = CriterionServer::start().unwrap();
            let mut client = Client::connect(&server, 8);
            client.send(&message);
            // The server closes the connection.
            assert_eq!(client.0.read(&mut [0]).unwrap(), 0);
            let talk = server.stop();
            let error = criterion::from_talk(&talk).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    /// Waits until the server closes the connection, and returns the error that it found.
    fn error_after_close(server: CriterionServer, mut client: Client) -> String {
        assert_eq!(client.0.read(&mut [0]).unwrap(), 0);
        criterion::from_talk(&server.stop()).unwrap_err().to_string()
    }

    #[test]
    fn total_of_messages_is_limited() {
        let server = CriterionServer::start().unwrap();
        let mut client = Client::connect(&server, 8);
        let message = json!({ "FinishedBenchmarkGroup": { "group": "g" } });
        let bytes = encode(&message).len() as u64 + 4;
        server.shared.state().remaining_bytes = 2 * bytes;
        for _ in 0..2 {
            client.send(&message);
            assert_eq!(client.receive(), json!("Continue"));
        }
        client.send(&message);
        let error = error_after_close(server, client);
        assert!(error.contains("more than 64 MiB"), "{error}");
    }

    #[test]
    fn number_of_completed_is_limited() {
        let server = CriterionServer::start().unwrap();
        let mut client = Client::connect(&server, 8);
        let id = json!({ "group_id": "g", "function_id": null, "value_str": null });
        let bench = CompletedBench {
            id: serde_json::from_value(id.clone()).unwrap(),
            unit: String::new(),
            samples: Vec::new(),
        };
        server.shared.state().talk.completed = vec![bench; MAX_BENCHES];
        let samples = json!([1.0]);
        let complete = json!({ "id": id, "iters": samples, "times": samples });
        client.send(&json!({ "MeasurementComplete": complete }));
        client.receive();
        client.send(&json!({ "ScaledValues": { "scaled_values": samples, "unit": "ns" } }));
        assert_eq!(client.receive(), json!("Continue"));
        let error = error_after_close(server, client);
        assert!(error.contains("more than 10000 benchmarks"), "{error}");
    }

    #[test]
    fn number_of_connections_is_limited() {
        let server = CriterionServer::start().unwrap();
        let clients: Vec<Client> =
            (0..MAX_CONNECTIONS).map(|_| Client::connect(&server, 8)).collect();
        let mut refused = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port())).unwrap();
        assert_eq!(refused.read(&mut [0]).unwrap(), 0);
        drop(clients);
        let error = criterion::from_talk(&server.stop()).unwrap_err().to_string();
        assert!(error.contains("more than 64 connections"), "{error}");
    }

    #[test]
    fn foreign_connections_are_dropped_silently() {
        let server = CriterionServer::start_with_check(|_| false).unwrap();
        let mut foreign = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port())).unwrap();
        assert_eq!(foreign.read(&mut [0]).unwrap(), 0, "it is closed without a greeting");
        let talk = server.stop();
        assert_eq!((talk.version, talk.check().is_ok()), (None, true));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn user_of_connection_is_found() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        let (address, peer) = (client.local_addr().unwrap(), stream.local_addr().unwrap());
        assert!(is_own_connection(&stream));
        let table = |state: &str, user: u32| {
            let hex = |port: u16| format!("{:08X}:{port:04X}", u32::from_ne_bytes([127, 0, 0, 1]));
            let (address, peer) = (hex(address.port()), hex(peer.port()));
            format!(
                "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
                 \x20  0: {peer} {address} 01 00000000:00000000 00:00000000 00000000     0        0 7 1 0 20 4 30 10 -1\n\
                 \x20  1: {address} {peer} {state} 00000000:00000000 00:00000000 00000000 {user}        0 8 1 0 20 4 30 10 -1\n"
            )
        };
        assert_eq!(find_user(&table("01", 65534), address, peer), Some(65534));
        assert_eq!(find_user(&table("04", 0), address, peer), None, "its process has closed it");
    }

    #[test]
    fn silent_connections_do_not_block() {
        let server = CriterionServer::start().unwrap();
        let silent = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port())).unwrap();
        let talk = server.stop();
        assert_eq!(talk.version, None);
        drop(silent);
    }
}
