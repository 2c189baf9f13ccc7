//! Tokens of tenants whose requests are limited.
//!
//! Shape:      the keys of a request -> a token of each key's tenant, or why the request waits or is refused
//! Invariants: a request gets all its tokens or none

use super::session::Session;
use super::turn::{Ended, Stop, WaitsFor};
use crate::admission::NoToken;
use store::Key;
use units::TenantId;

/// Takes a token for every key from its own tenant, or for a request without keys from `tenant`: all of them or none.
pub(super) fn take_tokens(
    session: &Session<'_>,
    tenant: TenantId,
    keys: &[(Key<'_>, TenantId)],
) -> Result<(), Stop> {
    if session.gates.is_none() {
        return Ok(());
    }
    let needed = tokens_needed(tenant, keys);
    for (at, &(of, asks_for)) in needed.iter().enumerate() {
        let Some(gate) = session.gate(of) else { continue };
        let Err(none) = gate.take(asks_for, session.now) else { continue };
        // What has arrived is answered: nobody waits for a second that does not come. (Should it be put back, it was not taken; nobody asks any
        // more.)
        if session.is_draining && matches!(none, NoToken::Wait(_)) {
            continue;
        }
        put_back(session, &needed[..at]);
        return Err(match none {
            NoToken::Wait(until) if !session.has_waited_long.get() => {
                Stop::Ends(Ended::Waits(until, WaitsFor::Tokens))
            }
            NoToken::Wait(_) => {
                gate.count_refusal();
                Stop::Refused
            }
            NoToken::Refuse => Stop::Refused,
        });
    }
    Ok(())
}

/// Gives tokens back that were taken for a request which has had no effect.
pub(super) fn give_back(session: &Session<'_>, tenant: TenantId, keys: &[(Key<'_>, TenantId)]) {
    if session.gates.is_some() {
        put_back(session, &tokens_needed(tenant, keys));
    }
}

fn put_back(session: &Session<'_>, taken: &[(TenantId, usize)]) {
    for (of, tokens) in taken {
        if let Some(gate) = session.gate(*of) {
            gate.give_back(*tokens);
        }
    }
}

/// Whose tokens a request needs, and how many: those of its keys' tenants, each once, or one of `tenant`.
fn tokens_needed(tenant: TenantId, keys: &[(Key<'_>, TenantId)]) -> Vec<(TenantId, usize)> {
    if keys.iter().all(|(_, of)| *of == tenant) {
        return vec![(tenant, keys.len().max(1))];
    }
    let mut of: Vec<TenantId> = keys.iter().map(|(_, of)| *of).collect();
    of.sort_unstable();
    of.chunk_by(|a, b| a == b).map(|run| (run[0], run.len())).collect()
}
