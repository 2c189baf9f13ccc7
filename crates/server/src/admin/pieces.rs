//! Answers that are made while they are sent.
//!
//! Shape:   an iterator of pieces of text -> a page
//! Cost:    memory for one piece at a time and for what the connection has not sent yet
//! Failure: a piece that cannot be made ends the connection, so that nobody takes what came before for the whole

use axum::body::Body;
use axum::http::header;
use axum::response::IntoResponse;
use futures_util::stream;
use std::error::Error;

/// A page of that type, with these pieces.
pub(super) fn answer<E>(
    content_type: &'static str,
    pieces: impl Iterator<Item = Result<String, E>> + Send + 'static,
) -> impl IntoResponse
where
    E: Error + Send + Sync + 'static,
{
    ([(header::CONTENT_TYPE, content_type)], Body::from_stream(stream::iter(pieces)))
}
