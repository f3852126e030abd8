//! Decides whether a file of settings that was found is trusted, on Unix.
//!
//! Settings name programs to run. A file that another user can change must not choose programs that
//! run with the permissions of the caller.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use engine::machine::os;
use render::report::command::quote_word;

use crate::settings::open_file::{OpenFile, display_path};

/// Permissions of the group, and of all others, to write.
const WRITE_BY_GROUP: u32 = 0o020;
const WRITE_BY_ALL: u32 = 0o002;
/// In a directory with this mode, only the owner of a file can rename or delete it.
const STICKY: u32 = 0o1000;

/// Returns the reason why a file is not trusted, if it is not.
pub fn distrust_reason(file: &OpenFile) -> Option<String> {
    find_reason(file, &trusted_users())
}

/// Returns the users whose files are trusted: root, the caller, and the user who called sudo to
/// become root, who can run commands as root anyway.
fn trusted_users() -> Vec<u32> {
    let caller = os::effective_user();
    let sudo_caller = std::env::var("SUDO_UID").ok().filter(|_| caller == 0);
    let sudo_caller = sudo_caller.and_then(|user| user.parse().ok());
    [Some(0), Some(caller), sudo_caller].into_iter().flatten().collect()
}

fn find_reason(file: &OpenFile, trusted: &[u32]) -> Option<String> {
    let directory = file.path.parent().unwrap_or(Path::new("/"));
    let metadata = [
        file.opened.metadata(),
        // The owner of a link can point it to another file.
        std::fs::symlink_metadata(&file.path),
        std::fs::metadata(directory),
    ];
    let [Ok(target), Ok(entry), Ok(parent)] = metadata else {
        return Some("its owner is unknown".to_owned());
    };
    let owners = [(&target, "it"), (&entry, "the link"), (&parent, "its directory")];
    let foreign = owners.iter().find(|(object, _)| !trusted.contains(&object.uid()));
    if let Some((object, name)) = foreign {
        return Some(format!("user {} owns {name}", object.uid()));
    }
    let is_replaceable = is_shared(&parent) && parent.mode() & STICKY == 0;
    let (problem, paths) = match (is_shared(&target), is_replaceable) {
        (false, false) => return None,
        (true, false) => ("write to it", vec![file.path.as_path()]),
        (false, true) => ("replace it", vec![directory]),
        (true, true) => ("write to it", vec![&file.path, directory]),
    };
    let paths: Vec<String> = paths.into_iter().map(format_argument).collect();
    Some(format!("other users can {problem} (chmod go-w {} prevents that)", paths.join(" ")))
}

/// Returns whether users other than the owner can write. Many systems give each user a private
/// group of the same id and let it write, which is no risk.
fn is_shared(object: &Metadata) -> bool {
    let has_private_group = object.gid() == object.uid();
    let mode = object.mode();
    mode & WRITE_BY_ALL != 0 || mode & WRITE_BY_GROUP != 0 && !has_private_group
}

/// Formats a path for a command line.
fn format_argument(path: &Path) -> String {
    match display_path(path).as_str() {
        "" => ".".to_owned(),
        path => quote_word(path),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File, Permissions};
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    /// A file in a directory, with their modes and owners.
    struct Case {
        file_mode: u32,
        directory_mode: u32,
        file_owner: Option<u32>,
        directory_owner: Option<u32>,
        group: Option<u32>,
        /// The start of the reason, if the file is not trusted.
        reason: Option<&'static str>,
    }

    const OTHER_USER: u32 = 12_345;
    const SAFE: Case = Case {
        file_mode: 0o644,
        directory_mode: 0o755,
        file_owner: None,
        directory_owner: None,
        group: None,
        reason: None,
    };
    const OTHER_GROUP: Option<u32> = Some(12_346);

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn open(path: &Path) -> OpenFile {
        OpenFile { path: path.to_owned(), opened: File::open(path).unwrap() }
    }

    /// Returns the reason of a case; `None` if this user cannot create it.
    fn judge(case: &Case) -> Option<Option<String>> {
        let root = tempfile::tempdir().unwrap();
        let caller = root.path().metadata().unwrap().uid();
        let directory = root.path().join("project");
        let path = directory.join("osjitter.toml");
        fs::create_dir(&directory).unwrap();
        fs::write(&path, "").unwrap();
        let is_root = caller == 0;
        let owners = [case.file_owner, case.directory_owner, case.group];
        if !is_root && owners.iter().any(Option::is_some) {
            return None;
        }
        // By default each group is private to its user.
        chown(&path, case.file_owner, case.group.or(Some(caller))).ok()?;
        chown(&directory, case.directory_owner, case.group.or(Some(caller))).ok()?;
        set_mode(&path, case.file_mode);
        set_mode(&directory, case.directory_mode);
        Some(find_reason(&open(&path), &[0, caller]))
    }

    #[test]
    fn files_of_other_users_are_distrusted() {
        const WRITABLE: Option<&str> = Some("other users can write to it (chmod go-w /");
        const REPLACEABLE: Option<&str> = Some("other users can replace it (chmod go-w /");
        let cases = [
            SAFE,
            Case { file_mode: 0o400, directory_mode: 0o700, ..SAFE },
            Case { file_mode: 0o664, directory_mode: 0o775, ..SAFE },
            Case { file_mode: 0o664, group: OTHER_GROUP, reason: WRITABLE, ..SAFE },
            Case { file_mode: 0o646, reason: WRITABLE, ..SAFE },
            Case { directory_mode: 0o775, group: OTHER_GROUP, reason: REPLACEABLE, ..SAFE },
            Case { directory_mode: 0o757, reason: REPLACEABLE, ..SAFE },
            Case { file_mode: 0o666, directory_mode: 0o777, reason: WRITABLE, ..SAFE },
            // No other user can replace a file in a directory such as /tmp.
            Case { directory_mode: 0o1777, ..SAFE },
            Case { file_mode: 0o666, directory_mode: 0o1777, reason: WRITABLE, ..SAFE },
            Case { file_owner: Some(OTHER_USER), reason: Some("user 12345 owns it"), ..SAFE },
            Case {
                file_owner: Some(OTHER_USER),
                directory_mode: 0o1777,
                reason: Some("user 12345 owns it"),
                ..SAFE
            },
            Case {
                directory_owner: Some(OTHER_USER),
                reason: Some("user 12345 owns its directory"),
                ..SAFE
            },
            Case {
                directory_owner: Some(OTHER_USER),
                directory_mode: 0o1777,
                reason: Some("user 12345 owns its directory"),
                ..SAFE
            },
        ];
        for (index, case) in cases.iter().enumerate() {
            let Some(reason) = judge(case) else { continue };
            match (&reason, case.reason) {
                (Some(reason), Some(start)) => {
                    assert!(reason.starts_with(start), "case {index}: {reason}");
                }
                (None, None) => {}
                _ => panic!("case {index}: {reason:?}"),
            }
        }
    }

    #[test]
    fn untrusted_callers_trust_nothing() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("osjitter.toml");
        fs::write(&path, "").unwrap();
        set_mode(&path, 0o644);
        let owner = root.path().metadata().unwrap().uid();
        let reason = find_reason(&open(&path), &[owner + 1]);
        assert_eq!(reason, Some(format!("user {owner} owns it")));
    }

    #[test]
    fn link_is_judged_with_its_target() {
        let root = tempfile::tempdir().unwrap();
        let [target, link] = ["target", "osjitter.toml"].map(|name| root.path().join(name));
        fs::write(&target, "").unwrap();
        symlink(&target, &link).unwrap();
        let caller = root.path().metadata().unwrap().uid();
        let reason = || find_reason(&open(&link), &[0, caller]);
        set_mode(&target, 0o644);
        assert_eq!(reason(), None);
        set_mode(&target, 0o666);
        assert!(reason().unwrap().starts_with("other users can write to it"));
        if caller == 0 {
            set_mode(&target, 0o644);
            std::os::unix::fs::lchown(&link, Some(OTHER_USER), None).unwrap();
            assert_eq!(reason(), Some("user 12345 owns the link".to_owned()));
            chown(&target, Some(OTHER_USER), None).unwrap();
            assert_eq!(reason(), Some("user 12345 owns it".to_owned()));
        }
    }
}
