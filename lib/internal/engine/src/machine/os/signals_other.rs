//! Signals that would stop or end a process, which do not exist on this platform.

pub fn survive_file_size_limit() {}

pub fn delay_stop() {}

pub fn stop_at_once() {}

pub fn stop_as_terminal() {}

pub fn take_stop_request() -> bool {
    false
}

pub fn stop() {}
