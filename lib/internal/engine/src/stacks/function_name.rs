//! Readable names of functions, and whether they belong to a language or a runtime.

use std::borrow::Cow;

use files::why::stacks::Frame;

/// Maximum length of a name in characters.
const MAX_NAME: usize = 160;

/// Crates between the code of a program and its threads. They run the program's futures and start
/// its threads.
const RUNTIME_CRATES: [&str; 23] = [
    "addr2line", "alloc", "async_executor", "async_std", "backtrace", "compiler_builtins", "core",
    "futures", "futures_channel", "futures_core", "futures_executor", "futures_util", "hashbrown",
    "mio", "osinterval", "parking_lot", "pin_project", "rayon_core", "smol", "std", "test",
    "tickmeter", "tokio",
];
/// Packages of Go that run goroutines.
const RUNTIME_PACKAGES: [&str; 5] = ["runtime.", "runtime/", "internal/", "sync.", "reflect."];
/// Functions of C that start a program or a thread, and those that are linked into every program.
const RUNTIME_FUNCTIONS: [&str; 17] = [
    "_start", "__libc_start_main", "__libc_start_call_main", "start_thread", "__clone", "clone",
    "clone3", "__clone3", "memcpy", "memmove", "memset", "memcmp", "malloc", "free", "realloc",
    "calloc", "rust_begin_unwind",
];
/// Beginnings of the names of libraries of the system.
const RUNTIME_LIBRARIES: [&str; 9] = [
    "ld-linux", "ld-musl", "ld-2", "libc.", "libc-2", "libm.", "libpthread", "libgcc_s",
    "libstdc++",
];

/// Returns whether a file is a library of the system.
pub fn is_runtime_library(file: &str) -> bool {
    RUNTIME_LIBRARIES.iter().any(|library| file.starts_with(library))
}

/// Returns the frame of a symbol.
pub fn symbol_frame(symbol: &str) -> Frame {
    let name = demangle(symbol);
    let is_runtime = is_runtime_function(&name);
    Frame { name: shorten(&name).into(), is_runtime }
}

/// A function of the debugging information.
pub struct SourceFunction<'a> {
    /// Its name, which has no path if the debugging information is brief.
    pub name: &'a str,
    /// The file that contains its code.
    pub source: Option<&'a str>,
}

impl SourceFunction<'_> {
    /// Returns its frame; `None` if its name identifies nothing, as `{closure#0}`.
    pub fn frame(&self) -> Option<Frame> {
        let name = demangle(self.name);
        if name.starts_with('{') {
            return None;
        }
        let is_runtime = self.source.is_some_and(is_runtime_source) || is_runtime_function(&name);
        Some(Frame { name: shorten(without_arguments(&name)).into(), is_runtime })
    }
}

/// Returns whether a source file belongs to the standard library, or to a crate of a runtime.
fn is_runtime_source(path: &str) -> bool {
    if path.starts_with("/rustc/") || path.contains("/library/std/src") {
        return true;
    }
    let Some((_, package)) = path.split_once("/registry/src/") else { return false };
    // The index, then the package with its version.
    let package = package.split('/').nth(1).unwrap_or_default();
    let name = package.rsplit_once('-').map_or(package, |(name, _)| name).replace('-', "_");
    RUNTIME_CRATES.contains(&name.as_str())
}

/// Returns whether a function belongs to a language or a runtime.
fn is_runtime_function(name: &str) -> bool {
    let path = name.trim_start_matches(['<', '&', '*']);
    let path = path.trim_start_matches("mut ").trim_start_matches("const ");
    let path = path.trim_start_matches("dyn ");
    let crate_name = path.split(|c: char| !c.is_alphanumeric() && c != '_').next();
    let is_path = crate_name.is_some_and(|name| path[name.len()..].starts_with("::"));
    let is_generic_type = name.starts_with('<') && !is_path;
    RUNTIME_FUNCTIONS.contains(&name)
        || name.starts_with("__rust")
        || is_generic_type
        || (is_path && crate_name.is_some_and(|name| RUNTIME_CRATES.contains(&name)))
        || RUNTIME_PACKAGES.iter().any(|package| name.starts_with(package))
}

fn demangle(name: &str) -> Cow<'_, str> {
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        // The alternate form has no hash.
        return format!("{rust:#}").into();
    }
    let cpp = name.starts_with("_Z").then(|| cpp_demangle::Symbol::new(name).ok()).flatten();
    let options = cpp_demangle::DemangleOptions::default().no_params().no_return_type();
    cpp.and_then(|symbol| symbol.demangle_with_options(&options).ok())
        .map_or(name.into(), Into::into)
}

/// Removes the type arguments at the end of a name, such as `insert<u64, String>`.
fn without_arguments(name: &str) -> &str {
    match name.find('<') {
        Some(at) if at > 0 && !name.contains("::") => &name[..at],
        _ => name,
    }
}

fn shorten(name: &str) -> String {
    let mut short: String = name.chars().take(MAX_NAME).collect();
    if short.len() < name.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_are_readable() {
        let frame = |symbol| symbol_frame(symbol);
        let name = |symbol| frame(symbol).name.to_string();
        assert_eq!(
            name("_ZN3svc4work12parse_orders17h0123456789abcdefE"),
            "svc::work::parse_orders"
        );
        assert_eq!(name("_ZN4json5Value5parseERKSs"), "json::Value::parse");
        assert_eq!(name("main.heavy"), "main.heavy");
        assert_eq!(frame(&"x".repeat(400)).name.chars().count(), MAX_NAME + 1);
    }

    #[test]
    fn runtime_functions_are_recognised() {
        let runtime = [
            "tokio::runtime::task::raw::poll",
            "<core::pin::Pin<P> as core::future::future::Future>::poll",
            "<alloc::vec::Vec<T> as core::clone::Clone>::clone",
            "core::ptr::drop_in_place<svc::Session>",
            "<T as alloc::string::ToString>::to_string",
            "std::sys::backtrace::__rust_begin_short_backtrace",
            "<&mut std::io::BufReader<R> as std::io::Read>::read",
            "runtime.mallocgc",
            "start_thread",
            "__rust_alloc",
        ];
        for name in runtime {
            assert!(is_runtime_function(name), "{name}");
        }
        let program = [
            "svc::work::parse_orders",
            "<svc::Session as core::ops::drop::Drop>::drop",
            "<&svc::Session as core::fmt::Debug>::fmt",
            "serde_json::de::from_slice",
            "core_affinity::set",
            "parse_json",
            "encoding/json.Unmarshal",
            "main.heavy",
            "ns::operator<",
        ];
        for name in program {
            assert!(!is_runtime_function(name), "{name}");
        }
        assert!(is_runtime_library("libc.so.6") && !is_runtime_library("libcrypto.so"));
    }

    #[test]
    fn source_files_identify_runtimes() {
        fn frame(name: &str, source: &str) -> Option<Frame> {
            SourceFunction { name, source: Some(source) }.frame()
        }
        let is_runtime = |source: &str| frame("insert<u64>", source).unwrap().is_runtime;
        assert!(is_runtime("/rustc/59807616e1/library/alloc/src/vec/mod.rs"));
        let registry = "/cargo/registry/src/index-19";
        assert!(is_runtime(&format!("{registry}/tokio-1.54.1/src/lib.rs")));
        assert!(is_runtime(&format!("{registry}/futures-util-0.3.31/src/lib.rs")));
        assert!(!is_runtime(&format!("{registry}/serde_json-1.0.1/src/de.rs")));
        assert!(!is_runtime("/src/tokio-demo/src/main.rs"));
        assert_eq!(&*frame("insert<u64, String>", "src/a.rs").unwrap().name, "insert");
        assert_eq!(frame("{closure#0}", "src/a.rs"), None);
    }
}
