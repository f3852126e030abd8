//! The text of a file, gzip or plain, read piece by piece and within bounds.

use std::cell::Cell;
use std::fmt;
use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::Path;
use std::rc::Rc;

use crate::exit::{Error, Result, usage};
use flate2::read::MultiGzDecoder;

use super::{check_size, max_file_bytes, too_large};

/// Bytes at the start of a gzip file.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// Bytes at the start of files that other programs compressed. No text begins with them.
const OTHER_MAGIC: [([u8; 2], &str); 2] = [([0x28, 0xb5], "zstd"), ([0xfd, 0x37], "xz")];
/// Size to which any compressed file may be unpacked.
const MIN_UNPACKED_BYTES: u64 = 64 << 20;
/// Factor by which a larger file may be unpacked. Reports are packed to a tenth and bins to a
/// thirtieth; gzip can pack a text of one character to a thousandth.
const MAX_UNPACKED_RATIO: u64 = 100;

/// A reader of the text of a file, without its byte order mark. Its errors have no path.
pub struct TextReader {
    source: Box<dyn Read>,
    /// Number of bytes before they are unpacked, if they are compressed.
    packed_bytes: Option<Rc<Cell<u64>>>,
    is_gzip: bool,
    text_bytes: u64,
    max_bytes: u64,
}

/// The reason why a text is not read, although its file can be.
#[derive(Debug)]
struct Rejection(Error);

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Rejection {}

fn reject(error: Error) -> io::Error {
    io::Error::other(Rejection(error))
}

/// Converts an error of a [`TextReader`] to one that names the file.
pub fn reading_error(error: io::Error, file: &Path) -> Error {
    match error.get_ref().is_some_and(|inner| inner.is::<Rejection>()) {
        true => usage!("{}: {error}", file.display()),
        false => usage!("cannot read {}: {error}", file.display()),
    }
}

impl TextReader {
    /// Opens a file.
    ///
    /// # Errors
    /// Returns an error that names the file if it cannot be read, is larger than memory allows, or is
    /// in UTF-16.
    pub fn open(file: &Path) -> Result<Self> {
        let opened = File::open(file).map_err(|e| Error::unreadable(file, &e))?;
        Self::new(opened).map_err(|e| reading_error(e, file))
    }

    /// Reads an open file.
    ///
    /// # Errors
    /// Returns the errors of [`Self::open`] without the path, except for missing files.
    pub fn new(opened: File) -> io::Result<Self> {
        let max_bytes = max_file_bytes();
        let meta = opened.metadata()?;
        if meta.is_dir() {
            return Err(reject(Error::usage("is a directory; give the file")));
        }
        // A pipe or a device reports no size: its bytes are counted while they are read.
        if meta.len() > max_bytes {
            let size = format!("{} MiB large", meta.len() >> 20);
            return Err(reject(too_large(&size, max_bytes)));
        }
        Self::from_bytes(opened, max_bytes)
    }

    /// Reads a stream of at most `max_bytes`.
    ///
    /// # Errors
    /// Returns the errors of [`Self::new`].
    pub fn from_bytes(mut source: impl Read + 'static, max_bytes: u64) -> io::Result<Self> {
        let magic = read_start(&mut source, GZIP_MAGIC.len())?;
        let is_gzip = magic == GZIP_MAGIC;
        if let Some((_, name)) = OTHER_MAGIC.iter().find(|(start, _)| magic == start) {
            return Err(reject(usage!(
                "is compressed by {name}: unpack it, or compress it by gzip"
            )));
        }
        let source = Cursor::new(magic).chain(source);
        let packed_bytes = Rc::new(Cell::new(0));
        let mut reader = Self {
            source: Box::new(io::empty()),
            packed_bytes: is_gzip.then(|| Rc::clone(&packed_bytes)),
            is_gzip,
            text_bytes: 0,
            max_bytes,
        };
        reader.source = match is_gzip {
            true => Box::new(MultiGzDecoder::new(CountedReader { source, count: packed_bytes })),
            false => Box::new(source),
        };
        reader.without_mark()
    }

    /// Reads text that a decoder of another format unpacks from a file of a size.
    ///
    /// # Errors
    /// Returns the error of the decoder.
    pub fn from_decoder(decoder: Box<dyn Read>, packed_bytes: u64) -> io::Result<Self> {
        let reader = Self {
            source: decoder,
            packed_bytes: Some(Rc::new(Cell::new(packed_bytes))),
            is_gzip: false,
            text_bytes: 0,
            max_bytes: super::MAX_FILE_BYTES,
        };
        reader.without_mark()
    }

    /// Skips the byte order mark.
    fn without_mark(mut self) -> io::Result<Self> {
        let mut start = read_start(&mut self, 3)?;
        if start.starts_with(&[0xff, 0xfe]) || start.starts_with(&[0xfe, 0xff]) {
            return Err(reject(Error::usage(
                "is in UTF-16, as some shells redirect; write it with --out, or as UTF-8",
            )));
        }
        if start == [0xef, 0xbb, 0xbf] {
            start.clear();
        }
        let source = std::mem::replace(&mut self.source, Box::new(io::empty()));
        self.source = Box::new(Cursor::new(start).chain(source));
        self.text_bytes = 0;
        Ok(self)
    }

    /// Checks that neither the file nor the factor by which it is unpacked is too large.
    fn check_bounds(&self) -> Result<()> {
        let Some(packed_bytes) = &self.packed_bytes else {
            return check_size(self.text_bytes, "larger", self.max_bytes);
        };
        check_size(self.text_bytes, "larger when it is unpacked", self.max_bytes)?;
        let packed_bytes = packed_bytes.get();
        let max_bytes =
            packed_bytes.saturating_mul(MAX_UNPACKED_RATIO).saturating_add(MIN_UNPACKED_BYTES);
        if self.text_bytes <= max_bytes {
            return Ok(());
        }
        Err(usage!(
            "unpacks to more than {MAX_UNPACKED_RATIO} times its size and {} MiB; unpack it first if it is yours",
            MIN_UNPACKED_BYTES >> 20
        ))
    }
}

impl Read for TextReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // Not every caller repeats an interrupted call.
        let result = loop {
            match self.source.read(buffer) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                result => break result,
            }
        };
        let read = result.map_err(|e| match self.is_gzip {
            true => reject(usage!("is damaged gzip: {e}")),
            false => e,
        })?;
        self.text_bytes = self.text_bytes.saturating_add(read as u64);
        self.check_bounds().map_err(reject)?;
        Ok(read)
    }
}

/// Reads up to `length` bytes, fewer at the end.
fn read_start(source: &mut impl Read, length: usize) -> io::Result<Vec<u8>> {
    let mut start = Vec::new();
    source.take(length as u64).read_to_end(&mut start)?;
    Ok(start)
}

/// A reader that counts its bytes.
struct CountedReader<R> {
    source: R,
    count: Rc<Cell<u64>>,
}

impl<R: Read> Read for CountedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer)?;
        self.count.set(self.count.get().saturating_add(read as u64));
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file_io::compress;

    /// Returns the text of a file of these bytes.
    fn read(bytes: Vec<u8>, max_bytes: u64) -> io::Result<String> {
        let mut text = String::new();
        TextReader::from_bytes(Cursor::new(bytes), max_bytes)?.read_to_string(&mut text)?;
        Ok(text)
    }

    #[test]
    fn packed_and_plain_text_are_equal() {
        for text in ["", "a", "ab", "abc\n", "a longer text"] {
            let packed = compress(text.as_bytes()).unwrap();
            let marked = [&b"\xef\xbb\xbf"[..], text.as_bytes()].concat();
            let packed_marked = compress(&marked).unwrap();
            for bytes in [text.as_bytes().to_vec(), packed, marked, packed_marked] {
                assert_eq!(read(bytes, 1 << 20).unwrap(), text);
            }
        }
        let two = [compress(b"one ").unwrap(), compress(b"two").unwrap()].concat();
        assert_eq!(read(two, 1 << 20).unwrap(), "one two");
    }

    #[test]
    fn unsuitable_texts_are_rejected() {
        let error = |bytes: Vec<u8>, max_bytes| read(bytes, max_bytes).unwrap_err().to_string();
        assert!(error(b"\xff\xfea\0".to_vec(), 9).contains("UTF-16"));
        assert!(error(b"\x28\xb5\x2f\xfd\x04".to_vec(), 9).contains("is compressed by zstd"));
        assert!(error(b"\xfd7zXZ\0".to_vec(), 9).contains("is compressed by xz"));
        assert!(error(vec![b'a'; 11], 10).contains("is larger"));
        assert!(error(compress(&[b'a'; 11]).unwrap(), 10).contains("when it is unpacked"));
        let mut cut = compress(&[b'a'; 1_000]).unwrap();
        cut.truncate(cut.len() - 9);
        assert!(error(cut, 1 << 20).contains("damaged gzip"));
        // 128 MiB of one character are packed to 128 KiB.
        let bomb = compress(&vec![b'a'; 128 << 20]).unwrap();
        assert!(error(bomb, 1 << 30).contains("100 times its size"));
    }
}
