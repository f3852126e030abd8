//! expected: gated behind the `tokio-compat` feature
fn main() {
    let tokio = tokio::runtime::Runtime::new().unwrap();
    let future = busypoll::compat::with_tokio(tokio.handle(), async {});
    busypoll::Runtime::new().unwrap().block_on(future);
}
