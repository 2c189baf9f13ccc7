//! What plain `stats` counts beside items: of the whole server on the default listeners, of a tenant on its own.
//!
//! Invariants: a tenant's own connection is told nothing that others cause: what is not counted for each tenant is zero there
//! Units:      times that something happened, but for bytes read and written

use crate::shared::Shared;
use crate::tenants::Binding;
use std::sync::atomic::{AtomicU64, Ordering};
use units::TenantId;

macro_rules! figures {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Figures that grow, but for those of a tenant that a connection leaves.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub(super) struct Figures {
            $($(#[$doc])* pub(super) $name: u64,)*
        }

        impl Figures {
            /// What was counted since `earlier`.
            pub(super) fn since(self, earlier: &Self) -> Self {
                Self { $($name: self.$name.saturating_sub(earlier.$name),)* }
            }

            /// Is no more than `seen`, each figure for itself.
            pub(super) fn lower_to(&mut self, seen: &Self) {
                $(self.$name = self.$name.min(seen.$name);)*
            }
        }
    };
}

figures! {
    /// Connections that came.
    connections,
    /// Connections that were refused.
    rejected,
    /// Times that there were no descriptors for another.
    listen_disabled,
    /// Connections closed for their silence.
    idle_kicks,
    /// Bytes of requests.
    read_bytes,
    /// Bytes of replies.
    written_bytes,
    /// Requests whose memory there was none for.
    read_buf_oom,
    /// Times that a connection had to wait for its turn.
    yields,
    /// `flush_all`.
    flushes,
    /// Passwords that were shown.
    auth_cmds,
    /// Passwords that were wrong.
    auth_errors,
    /// TLS sessions.
    ssl_new_sessions,
    /// TLS handshakes that failed.
    ssl_handshake_errors,
    /// Lines written for those who watch.
    log_lines,
    /// Lines sent to them.
    log_sent,
    /// Lines that they had no room for.
    log_skipped,
    /// Writes that had to clean, or to wait for a cleaner.
    writer_waits,
    /// Values of tiers that were damaged.
    damaged,
}

impl Figures {
    /// What has been counted of what a connection sees.
    pub(super) fn seen(shared: &Shared, binding: Binding) -> Self {
        let watched = shared.watch.counts(binding);
        let figures = match binding {
            Binding::Unbound => Self::of_server(shared),
            Binding::To(tenant) => Self::of_tenant(shared, tenant),
        };
        Self { log_lines: watched.lines, log_sent: watched.sent, log_skipped: watched.skipped, ..figures }
    }

    fn of_server(shared: &Shared) -> Self {
        let counters = &shared.counters;
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Self {
            connections: load(&counters.total_connections),
            rejected: load(&counters.rejected_connections),
            listen_disabled: load(&counters.listen_disabled),
            idle_kicks: load(&counters.idle_kicks),
            read_bytes: load(&counters.bytes_read),
            written_bytes: load(&counters.bytes_written),
            read_buf_oom: load(&counters.read_buf_oom),
            yields: load(&counters.conn_yields),
            flushes: load(&counters.cmd_flush),
            auth_cmds: load(&counters.auth_cmds),
            auth_errors: load(&counters.auth_errors),
            ssl_new_sessions: load(&counters.ssl_new_sessions),
            ssl_handshake_errors: load(&counters.ssl_handshake_errors),
            writer_waits: shared.store.cleaner_totals().writer_waits,
            damaged: shared.store.tier_totals().iter().map(|totals| totals.broken).sum(),
            ..Self::default()
        }
    }

    fn of_tenant(shared: &Shared, tenant: TenantId) -> Self {
        let seen = shared.clients.of(tenant);
        Self {
            connections: seen.connections,
            rejected: shared.admission.of(tenant).1.connections_refused,
            read_bytes: seen.read_bytes,
            written_bytes: seen.written_bytes,
            flushes: seen.flushes,
            ..Self::default()
        }
    }
}
