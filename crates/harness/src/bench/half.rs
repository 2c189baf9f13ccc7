//! Half of a trace: what was chosen by looking at the whole is seen on each half by itself.

use lab::{Request, TraceError, TraceReader};
use std::path::Path;

/// Which half, by the number of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Half {
    First,
    Second,
}

impl Half {
    /// The half of a name.
    pub(crate) fn named(word: &str) -> Option<Self> {
        match word {
            "first" => Some(Self::First),
            "second" => Some(Self::Second),
            _ => None,
        }
    }
}

/// The trace in a file, or half of it.
pub(crate) fn open(path: &Path, half: Option<Half>) -> Result<Box<dyn TraceReader>, TraceError> {
    let Some(half) = half else { return Ok(lab::open(path, None)?) };
    let mut counted = lab::open(path, None)?;
    let mut requests = 0_u64;
    while counted.next()?.is_some() {
        requests += 1;
    }
    let first = requests / 2;
    let mut trace = lab::open(path, None)?;
    let (skipped, left) = if half == Half::First { (0, first) } else { (first, requests - first) };
    for _ in 0..skipped {
        trace.next()?;
    }
    Ok(Box::new(Part { trace, left }))
}

/// So many requests of a trace.
struct Part<R> {
    trace: R,
    left: u64,
}

impl<R: TraceReader> TraceReader for Part<R> {
    fn next(&mut self) -> Result<Option<Request<'_>>, TraceError> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        self.trace.next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_the_whole_one_after_the_other() {
        let file = std::env::temp_dir().join(format!("cotenant-half-{}.csv", std::process::id()));
        let rows: String = (0..7).map(|n| format!("{n},key-{n},10,get\n")).collect();
        std::fs::write(&file, format!("t_ms,key,size,op\n{rows}")).expect("a file of the test");
        let keys = |half| {
            let mut trace = open(&file, half).expect("it is a trace");
            let mut keys = Vec::new();
            while let Some(request) = trace.next().expect("it is well formed") {
                keys.push(request.key.to_vec());
            }
            keys
        };
        let (whole, first, second) = (keys(None), keys(Half::named("first")), keys(Half::named("second")));
        assert_eq!((whole.len(), first.len(), second.len()), (7, 3, 4));
        assert_eq!(whole, [first, second].concat());
        assert_eq!(Half::named("third"), None);
        std::fs::remove_file(&file).expect("it was written");
    }
}
