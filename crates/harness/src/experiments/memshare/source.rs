//! The trace of an experiment: a file that is read again for every replay, the requests of some of its tenants, kept, or a
//! generated mix.
//!
//! Shape:   sweep (`trace`, `requests`, `tenants`) or a mix -> readers
//! Failure: a file that is absent makes the experiment not applicable; one that is malformed makes it fail

use crate::experiments::trace_file;
use lab::experiment::{ExperimentError, Sweep};
use lab::{Mix, Op, Request, TraceError, TraceReader};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use units::{Duration, Instant};

/// The trace.
pub(super) struct Source {
    kind: Kind,
    /// Requests of the file that count.
    requests: u64,
    tenants: Vec<String>,
    positions: HashMap<Vec<u8>, usize>,
    end: Instant,
}

/// Where its requests come from.
enum Kind {
    /// Every request of a file.
    File(PathBuf),
    /// Some tenants' requests of a file.
    Kept(Kept),
    /// Generated.
    Mix(Mix),
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
        let path = match trace_file::find(sweep.text("trace")?) {
            Ok(path) => path,
            Err(why) => return Ok(Err(why)),
        };
        let tenants: Vec<String> = sweep.texts("tenants")?.into_iter().map(str::to_owned).collect();
        let kind = if tenants.is_empty() { Kind::File(path.clone()) } else { Kind::Kept(Kept::default()) };
        let requests = sweep.count("requests")?;
        let mut source = Self { kind, requests, positions: HashMap::new(), tenants, end: Instant::ZERO };
        source.look_through(&path)?;
        Ok(Ok(source))
    }

    /// `requests` requests of `mix`, which last `seconds`.
    pub(super) fn generated(mix: Mix, requests: u64, seconds: u64) -> Self {
        let tenants: Vec<String> = mix.tenants().iter().map(|t| t.name.clone()).collect();
        let positions = tenants.iter().map(|t| t.clone().into_bytes()).zip(0..).collect();
        let end = Instant::ZERO + Duration::from_secs(seconds);
        Self { kind: Kind::Mix(mix), requests, positions, tenants, end }
    }

    /// Reads the trace once: who is in it, when it ends, and the requests to keep.
    fn look_through(&mut self, path: &Path) -> Result<(), ExperimentError> {
        let mut reader = lab::open(path, None).map_err(ExperimentError::failed)?;
        self.positions = self.tenants.iter().map(|t| t.clone().into_bytes()).zip(0..).collect();
        for _ in 0..self.requests {
            let Some(request) = reader.next().map_err(ExperimentError::failed)? else { break };
            self.end = self.end.max(request.at);
            match (self.positions.get(request.tenant), &mut self.kind) {
                (Some(tenant), Kind::Kept(kept)) => kept.push(*tenant, &request),
                (None, Kind::File(_)) => {
                    self.positions.insert(request.tenant.to_vec(), self.tenants.len());
                    self.tenants.push(String::from_utf8_lossy(request.tenant).into_owned());
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A reader from the first request on.
    pub(super) fn reader(&self) -> Result<Box<dyn TraceReader + '_>, ExperimentError> {
        match &self.kind {
            Kind::Kept(kept) => Ok(Box::new(Replay { source: self, kept, next: 0, key_start: 0 })),
            Kind::File(path) => {
                let reader = lab::open(path, None).map_err(ExperimentError::failed)?;
                Ok(Box::new(reader))
            }
            Kind::Mix(mix) => Ok(Box::new(mix.clone())),
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

    /// The time of the last request that counts.
    pub(super) fn end(&self) -> Instant {
        self.end
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
