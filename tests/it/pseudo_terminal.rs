//! A terminal without a screen, to which a command is connected.
#![cfg(target_os = "linux")]

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::Command;

use rustix::fs::OFlags;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

pub const COLUMNS: u16 = 80;
pub const LINES: u16 = 24;

/// Opens a terminal. Returns the end that a terminal emulator has, and the one of programs.
pub fn open_terminal() -> (File, File) {
    let main = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&main).unwrap();
    unlockpt(&main).unwrap();
    let name = ptsname(&main, Vec::new()).unwrap();
    let path = OsStr::from_bytes(name.as_bytes());
    let flags = OFlags::NOCTTY.bits() as i32;
    let other = File::options().read(true).write(true).custom_flags(flags).open(path).unwrap();
    let size = Winsize { ws_row: LINES, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&other, size).unwrap();
    (File::from(main), other)
}

/// Connects the streams of a command to a new terminal, and returns the other end.
pub fn connect_terminal(process: &mut Command) -> File {
    let (main, other) = open_terminal();
    process.stdin(other.try_clone().unwrap()).stdout(other.try_clone().unwrap()).stderr(other);
    main
}

/// Reads until a text appears. Returns false if the other end is closed before.
pub fn read_until(stream: &mut impl Read, text: &str) -> bool {
    let (mut output, mut part) = (Vec::new(), [0; 1_024]);
    loop {
        if String::from_utf8_lossy(&output).contains(text) {
            return true;
        }
        match stream.read(&mut part) {
            Ok(length @ 1..) => output.extend_from_slice(&part[..length]),
            _ => return false,
        }
    }
}
