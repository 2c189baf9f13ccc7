//! Gives a tenant to the requests of a trace whose format has none.

use super::{Request, TraceError, TraceReader};

/// `reader`, with `tenant` in every request that names no tenant. Keys stay as they are.
#[must_use]
pub fn with_tenant(reader: Box<dyn TraceReader + Send>, tenant: &str) -> Box<dyn TraceReader + Send> {
    Box::new(WithTenant { reader, tenant: tenant.as_bytes().to_vec() })
}

struct WithTenant {
    reader: Box<dyn TraceReader + Send>,
    tenant: Vec<u8>,
}

impl TraceReader for WithTenant {
    fn next(&mut self) -> Result<Option<Request<'_>>, TraceError> {
        let request = self.reader.next()?;
        let named = |r: Request<'_>| !r.tenant.is_empty();
        Ok(match request {
            Some(request) if !named(request) => Some(Request { tenant: &self.tenant, ..request }),
            request => request,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Format, open_reader};

    #[test]
    fn only_nameless_requests_get_the_tenant() {
        let text = "t_ms,tenant,key,key_bytes,value_bytes,op,ttl_s\n0,,k,1,1,get,0\n0,web,k,1,1,get,0\n";
        let reader = open_reader(Box::new(text.as_bytes()), "t", Some(Format::Mix)).unwrap();
        let mut reader = with_tenant(reader, "twitter52");
        assert_eq!(reader.next().unwrap().unwrap().tenant, b"twitter52");
        assert_eq!(reader.next().unwrap().unwrap().tenant, b"web");
        assert!(reader.next().unwrap().is_none());
    }
}
