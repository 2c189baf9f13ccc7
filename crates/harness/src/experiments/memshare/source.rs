//! The trace of an experiment: a file that is read again for every replay, or the requests of some of its tenants, kept.
//!
//! Shape:   sweep (`trace`, `requests`, `tenants`) -> readers
//! Failure: a file that is absent makes the experiment not applicable; one that is malformed makes it fail

use lab::experiment::{ExperimentError, Sweep};
use lab::{Op, Request, TraceError, TraceReader};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use units::Instant;

/// Where the repository lies that this program was built from: traces lie beside it.
const CHECKOUT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The trace.
pub(super) struct Source {
    path: PathBuf,
    /// Requests of the file that count.
    requests: u64,
    tenants: Vec<String>,
    positions: HashMap<Vec<u8>, usize>,
    /// The requests of `tenants`; none if all are of interest.
    kept: Option<Kept>,
    end: Instant,
}

/// Requests in memory.
#[derive(Default)]
struct Kept {
    records: Vec<Record>,
    keys: Vec<u8>,
}

struct Record {
    at: Instant,
    tenant: usize,
    key_end: usize,
    value_bytes: u32,
    ttl_secs: u32,
    op: Op,
}

impl Source {
    /// The trace that the sweep names; the inner error says why there is none.
    pub(super) fn open(sweep: &Sweep) -> Result<Result<Self, String>, ExperimentError> {
        let named = sweep.text("trace")?;
        let candidates = [PathBuf::from(named), Path::new(CHECKOUT).join(named)];
        let Some(path) = candidates.into_iter().find(|path| path.is_file()) else {
            return Ok(Err(format!("the trace {named} is absent, here and beside the repository")));
        };
        let tenants: Vec<String> = sweep.texts("tenants")?.into_iter().map(str::to_owned).collect();
        let mut source = Self {
            path,
            requests: sweep.count("requests")?,
            positions: HashMap::new(),
            kept: (!tenants.is_empty()).then(Kept::default),
            tenants,
            end: Instant::ZERO,
        };
        source.look_through()?;
        Ok(Ok(source))
    }

    /// Reads the trace once: who is in it, when it ends, and the requests to keep.
    fn look_through(&mut self) -> Result<(), ExperimentError> {
        let mut reader = lab::open(&self.path, None).map_err(ExperimentError::failed)?;
        self.positions = self.tenants.iter().map(|t| t.clone().into_bytes()).zip(0..).collect();
        for _ in 0..self.requests {
            let Some(request) = reader.next().map_err(ExperimentError::failed)? else { break };
            self.end = self.end.max(request.at);
            match (self.positions.get(request.tenant), &mut self.kept) {
                (Some(tenant), Some(kept)) => kept.push(*tenant, &request),
                (None, None) => {
                    self.positions.insert(request.tenant.to_vec(), self.tenants.len());
                    self.tenants.push(String::from_utf8_lossy(request.tenant).into_owned());
                }
                (Some(_), None) | (None, Some(_)) => {}
            }
        }
        Ok(())
    }

    /// A reader from the first request on.
    pub(super) fn reader(&self) -> Result<Box<dyn TraceReader + '_>, ExperimentError> {
        match &self.kept {
            Some(kept) => Ok(Box::new(Replay { source: self, kept, next: 0, key_start: 0 })),
            None => {
                let reader = lab::open(&self.path, None).map_err(ExperimentError::failed)?;
                Ok(Box::new(reader))
            }
        }
    }

    /// Requests that a replay has at most.
    pub(super) fn requests(&self) -> u64 {
        self.requests
    }

    /// The tenants, in the order of the sweep or of their first requests.
    pub(super) fn tenants(&self) -> &[String] {
        &self.tenants
    }

    /// The place of a tenant in that order.
    pub(super) fn position(&self, tenant: &[u8]) -> Option<usize> {
        self.positions.get(tenant).copied()
    }

    /// The length of what counts of the trace, in its own time.
    pub(super) fn seconds(&self) -> f64 {
        self.end.since(Instant::ZERO).as_secs_f64()
    }
}

impl Kept {
    fn push(&mut self, tenant: usize, request: &Request<'_>) {
        self.keys.extend_from_slice(request.key);
        let (key_end, value_bytes) = (self.keys.len(), request.value_bytes);
        let Request { at, ttl_secs, op, .. } = *request;
        self.records.push(Record { at, tenant, key_end, value_bytes, ttl_secs, op });
    }
}

/// Reads kept requests.
struct Replay<'a> {
    source: &'a Source,
    kept: &'a Kept,
    next: usize,
    key_start: usize,
}

impl TraceReader for Replay<'_> {
    fn next(&mut self) -> Result<Option<Request<'_>>, TraceError> {
        let Some(record) = self.kept.records.get(self.next) else { return Ok(None) };
        let key = &self.kept.keys[self.key_start..record.key_end];
        (self.next, self.key_start) = (self.next + 1, record.key_end);
        Ok(Some(Request {
            at: record.at,
            tenant: self.source.tenants[record.tenant].as_bytes(),
            key,
            value_bytes: record.value_bytes,
            op: record.op,
            ttl_secs: record.ttl_secs,
        }))
    }
}
