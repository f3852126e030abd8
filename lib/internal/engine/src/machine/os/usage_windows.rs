//! Resources of a process on Windows.

use windows_sys::Win32::Foundation::FILETIME;
use windows_sys::Win32::System::Threading::{GetCurrentProcess, GetProcessTimes};

use crate::machine::os::types::Usage;

/// Returns the CPU time of this process, in steps of the system's tick. Context switches are not
/// reported.
pub fn usage() -> Usage {
    const ZERO: FILETIME = FILETIME { dwLowDateTime: 0, dwHighDateTime: 0 };
    let [mut created, mut ended, mut kernel, mut user] = [ZERO; 4];
    // SAFETY: the handle is the constant for this process, and the four times are ours to be
    // filled.
    let known = unsafe {
        GetProcessTimes(GetCurrentProcess(), &mut created, &mut ended, &mut kernel, &mut user)
    };
    let ns = |t: FILETIME| ((u64::from(t.dwHighDateTime) << 32) | u64::from(t.dwLowDateTime)) * 100;
    Usage { cpu_ns: (known != 0).then(|| ns(kernel) + ns(user)), ..Usage::default() }
}
