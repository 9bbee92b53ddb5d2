//! Which answer belongs to which request, on any transport.
//!
//! Invariant: messages are routed by the task that reads them, one after the other, so progress
//! reaches its sink in the order of the wire and before the result it precedes.
//! Invariant: every registered request completes: with an answer, with [`Peer::fail_all`], or by
//! being dropped, which runs its cancellation if the upstream may know of it.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use serde_json::value::RawValue;
use tokio::sync::{Notify, oneshot};
use toolcrib_core::call::{Progress, ProgressSink, UpstreamError, UpstreamErrorKind};
use toolcrib_mcp::{
    message::{self, IncomingMessage, RpcError, numeric_id},
    method,
    scan::IdScan,
};

use super::{
    failure::Failure,
    list_changes::ListChanges,
    message::{Reply, RpcResult, decode, encode_answer, read_malformed},
};
use crate::error::{died, unavailable};

/// The problem of an answer that serde_json refuses.
const NOT_JSON_RPC: &str = "its answer is not valid JSON-RPC";

/// Requests of one connection that wait for an answer.
pub(crate) struct Peer {
    next_id: AtomicU64,
    table: Mutex<Table>,
    list_changed: Arc<ListChanges>,
    /// Whether requests were waiting when the connection closed.
    interrupted: AtomicBool,
}

#[derive(Default)]
struct Table {
    waiting: HashMap<u64, PendingRequest>,
    closed: bool,
}

struct PendingRequest {
    answer: oneshot::Sender<Result<Reply, Failure>>,
    interest: Interest,
    sent: bool,
}

/// Receivers of messages that precede the answer.
#[derive(Clone, Default)]
pub(crate) struct Interest {
    pub(crate) progress: Option<Arc<dyn ProgressSink>>,
    /// Notified when a subscription is acknowledged.
    pub(crate) acknowledged: Option<Arc<Notify>>,
}

/// Longest id of an upstream's own request to answer, in bytes of JSON.
const MAX_ID: usize = 256;

/// Called with the id of a request dropped after it was sent.
pub(crate) type CancelHook = Box<dyn FnOnce(u64) + Send>;

/// A registered request. Dropping it before its answer cancels it.
pub(crate) struct ReplyHandle {
    peer: Arc<Peer>,
    id: u64,
    answer: oneshot::Receiver<Result<Reply, Failure>>,
    on_cancel: Option<CancelHook>,
}

// === impl Peer ===

impl Peer {
    /// Creates a peer that notifies `list_changed` when the upstream announces changed tools.
    pub(crate) fn new(list_changed: Arc<ListChanges>) -> Arc<Self> {
        Arc::new(Self {
            next_id: AtomicU64::new(1),
            table: Mutex::default(),
            list_changed,
            interrupted: AtomicBool::new(false),
        })
    }

    /// Registers a request with a new id, before it is sent.
    pub(crate) fn register(
        self: &Arc<Self>,
        interest: Interest,
        on_cancel: Option<CancelHook>,
    ) -> Result<ReplyHandle, UpstreamError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        let mut table = self.table.lock();
        if table.closed {
            return Err(unavailable("not connected"));
        }
        table.waiting.insert(id, PendingRequest { answer: sender, interest, sent: false });
        drop(table);
        Ok(ReplyHandle { peer: Arc::clone(self), id, answer, on_cancel })
    }

    /// Marks request `id` as sent; false if it was dropped.
    pub(crate) fn mark_sent(&self, id: u64) -> bool {
        let mut table = self.table.lock();
        table.waiting.get_mut(&id).map(|request| request.sent = true).is_some()
    }

    /// Routes one message; `reply` sends an answer to a request of the upstream. Returns false for
    /// anything but a message.
    pub(crate) fn accept(&self, message: &[u8], reply: &mut dyn FnMut(Vec<u8>)) -> bool {
        let (text, problem) = decode(message);
        // Checked first, because serde reads structs from arrays, too.
        let is_object = text.trim_ascii_start().starts_with('{');
        if is_object && let Ok(incoming) = serde_json::from_str::<IncomingMessage<'_>>(&text) {
            return self.route(&incoming, problem, reply);
        }
        // The handshake era allowed several messages in one array.
        if let Ok(batch) = serde_json::from_str::<Vec<IncomingMessage<'_>>>(&text) {
            // All of them are routed, even if the first is not a message.
            let routed = batch.iter().filter(|incoming| self.route(incoming, problem, reply));
            return routed.count() > 0;
        }
        self.accept_malformed(&text)
    }

    fn route(
        &self,
        incoming: &IncomingMessage<'_>,
        problem: Option<&str>,
        reply: &mut dyn FnMut(Vec<u8>),
    ) -> bool {
        match (incoming.id, incoming.method.as_deref()) {
            (None, Some(method::PROGRESS)) => self.progress(incoming.params),
            (None, Some(method::TOOLS_CHANGED)) => self.list_changed.announce(),
            (None, Some(method::ACKNOWLEDGED)) => self.acknowledge(),
            (None, Some(_)) => {}
            // The queued answer repeats the id, so its length is limited.
            (Some(id), Some(method)) if id.get().len() <= MAX_ID => {
                reply(encode_answer(id, method));
            }
            (Some(_), Some(_)) => return false,
            (Some(id), None) => match numeric_id(id) {
                Some(id) => self.answer(id, incoming, problem),
                None => return false,
            },
            (None, None) => return false,
        }
        true
    }

    fn answer(&self, id: u64, incoming: &IncomingMessage<'_>, problem: Option<&str>) {
        let answer = match (incoming.result, incoming.error) {
            (_, Some(error)) => Reply::Error(RpcError::read(error)),
            // JavaScript leaves out an `undefined` result.
            (result, None) => {
                let json = result.unwrap_or(RawValue::NULL).to_owned();
                Reply::Result(RpcResult { json, problem: problem.map(str::to_owned) })
            }
        };
        self.settle(id, Ok(answer));
    }

    /// Answers the request whose id is in a malformed answer, so that it does not wait for its
    /// deadline.
    fn accept_malformed(&self, message: &str) -> bool {
        let mut scan = IdScan::default();
        scan.feed(message.as_bytes());
        let scanned = scan.finish();
        let id = scanned.number().filter(|_| !scanned.has_method);
        if let Some(id) = id {
            self.settle(id, read_malformed(message, NOT_JSON_RPC));
        }
        id.is_some()
    }

    fn progress(&self, params: Option<&RawValue>) {
        let params = params.and_then(|params| serde_json::from_str(params.get()).ok());
        let Some(params): Option<message::Progress<'_>> = params else { return };
        // The token of a request is its id. The sink is called outside the lock.
        let Some(id) = numeric_id(params.progress_token) else { return };
        let sink = self.table.lock().waiting.get(&id).and_then(|w| w.interest.progress.clone());
        if let Some(sink) = sink {
            let message::Progress { progress, total, message, .. } = params;
            sink.report(Progress { progress, total, message });
        }
    }

    /// A connection has one subscription, so the id is not compared: some upstreams repeat it with
    /// another type.
    fn acknowledge(&self) {
        let table = self.table.lock();
        for notify in table.waiting.values().filter_map(|w| w.interest.acknowledged.as_ref()) {
            notify.notify_one();
        }
    }

    /// Completes request `id`; the answer to a dropped request is discarded.
    pub(crate) fn settle(&self, id: u64, answer: Result<Reply, Failure>) {
        let waiting = self.table.lock().waiting.remove(&id);
        if let Some(waiting) = waiting {
            // The receiver is dropped only with its `ReplyHandle`; then the answer is not needed.
            drop(waiting.answer.send(answer));
        }
    }

    /// Whether every later request fails.
    pub(crate) fn is_closed(&self) -> bool {
        self.table.lock().closed
    }

    /// Whether the connection closed during a request.
    pub(crate) fn was_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Fails every request, and every later one with `Unavailable`.
    pub(crate) fn fail_all(&self, kind: UpstreamErrorKind, detail: &str) {
        let waiting = {
            let mut table = self.table.lock();
            table.closed = true;
            std::mem::take(&mut table.waiting)
        };
        self.interrupted.fetch_or(!waiting.is_empty(), Ordering::Relaxed);
        for (_, waiting) in waiting {
            let kind = if waiting.sent { kind } else { UpstreamErrorKind::Unavailable };
            drop(waiting.answer.send(Err(UpstreamError::new(kind, detail).into())));
        }
    }
}

// === impl ReplyHandle ===

impl ReplyHandle {
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Waits for the answer.
    pub(crate) async fn answer(&mut self) -> Result<Reply, Failure> {
        (&mut self.answer).await.unwrap_or_else(|_| Err(died("the connection is gone").into()))
    }

    /// Marks the request as finished: dropping it then has no effect.
    pub(crate) fn disarm(&mut self) {
        self.on_cancel = None;
    }

    pub(crate) fn take(&mut self) -> Option<Result<Reply, Failure>> {
        self.answer.try_recv().ok()
    }
}

impl Drop for ReplyHandle {
    fn drop(&mut self) {
        let waiting = self.peer.table.lock().waiting.remove(&self.id);
        if waiting.is_some_and(|waiting| waiting.sent)
            && let Some(cancel) = self.on_cancel.take()
        {
            cancel(self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct ProgressCollector(Mutex<Vec<String>>);

    impl ProgressSink for ProgressCollector {
        fn report(&self, progress: Progress) {
            self.0.lock().push(progress.progress.to_string());
        }
    }

    fn accept(peer: &Peer, message: &str) -> (bool, Vec<String>) {
        let mut replies = Vec::new();
        let known = peer.accept(message.as_bytes(), &mut |reply| {
            replies.push(String::from_utf8(reply).unwrap());
        });
        (known, replies)
    }

    #[test]
    fn answers_and_progress_reach_their_request_even_when_the_id_comes_back_as_a_string() {
        let peer = Peer::new(Arc::default());
        let sink = Arc::new(ProgressCollector(Mutex::default()));
        let mut waiter = peer
            .register(Interest { progress: Some(Arc::clone(&sink) as _), acknowledged: None }, None)
            .unwrap();
        for token in ["1", "\"1\"", "2", "\"x\""] {
            let message = format!(
                r#"{{"method":"notifications/progress","params":{{"progressToken":{token},"progress":1.0}}}}"#
            );
            assert!(accept(&peer, &message).0);
        }
        assert!(accept(&peer, r#"{"id":"1","result":{"big":123456789012345678901234567890}}"#).0);
        assert!(
            accept(
                &peer,
                r#"{"method":"notifications/progress","params":{"progressToken":1,"progress":9}}"#
            )
            .0
        );
        let Some(Ok(Reply::Result(result))) = waiter.take() else { panic!("no result") };
        assert_eq!(result.get(), r#"{"big":123456789012345678901234567890}"#);
        assert_eq!(*sink.0.lock(), ["1.0", "1.0"]);
    }

    #[test]
    fn requests_of_the_upstream_are_answered_or_refused() {
        let peer = Peer::new(Arc::default());
        let (_, pong) = accept(&peer, r#"{"id":"p","method":"ping"}"#);
        assert_eq!(pong, [r#"{"jsonrpc":"2.0","id":"p","result":{}}"#]);
        let (_, refused) = accept(&peer, r#"{"id":7,"method":"sampling/createMessage"}"#);
        assert!(refused.concat().contains("-32601"), "{refused:?}");
    }

    /// The result of the answer to request 1, and whether it is valid; else its error.
    fn answered(answer: &[u8]) -> Result<(String, Option<String>), String> {
        let peer = Peer::new(Arc::default());
        let mut waiter = peer.register(Interest::default(), None).unwrap();
        assert!(peer.accept(answer, &mut |_| ()), "{}", String::from_utf8_lossy(answer));
        match waiter.take().expect("the call ends at once") {
            Ok(Reply::Result(result)) => Ok((result.get().to_owned(), result.problem)),
            Ok(Reply::Error(error)) => Err(error.message.into_owned()),
            Err(Failure::Malformed(answer)) if answer.is_error => Err(answer.text),
            Err(Failure::Malformed(answer)) => {
                Ok((format!("malformed: {}", answer.text), Some(answer.problem)))
            }
            Err(failure) => panic!("{failure:?}"),
        }
    }

    #[test]
    fn an_answer_is_read_as_far_as_it_can_be() {
        let fine = |text: &str| Ok((text.to_owned(), None));
        let odd = |text: &str| Ok((text.to_owned(), Some(NOT_JSON_RPC.to_owned())));
        for (answer, expected) in [
            ("\u{feff}{\"id\":1,\"result\":{}}", fine("{}")),
            ("\u{feff} [{\"id\":1,\"result\":{}}]", fine("{}")),
            (r#"{"id":1.0,"result":{}}"#, fine("{}")),
            (r#"{"id":1,"result":null}"#, fine("null")),
            (r#"{"id":1,"result":null,"error":null}"#, fine("null")),
            (r#"{"id":1}"#, fine("null")),
            (r#"{"id":1,"id":1,"result":{"a":1}}"#, odd(r#"{"a":1}"#)),
            (r#"{"result":{"a":1},"id":1,"took":NaN}"#, odd(r#"{"a":1}"#)),
            (
                r#"{"result":{"a":[NaN,-Infinity]},"id":1}"#,
                odd(r#"malformed: {"a":[NaN,-Infinity]}"#),
            ),
            (r#"{"id":1,"result":{"a":"#, odd(r#"malformed: {"a":"#)),
            (r#"{"id":1,"error":{"code":1,"message":"no"},"took":NaN}"#, Err("no".to_owned())),
            (r#"{"id":1,"error":{"data":NaN}}"#, Err(r#"{"data":NaN}"#.to_owned())),
        ] {
            assert_eq!(answered(answer.as_bytes()), expected, "{answer}");
        }
        let (text, problem) = answered(b"{\"id\":1,\"result\":\"caf\xe9\"}").unwrap();
        assert_eq!(text, "\"caf\u{fffd}\"");
        assert!(problem.unwrap().contains("U+FFFD"));
    }

    #[test]
    fn noise_is_recognised() {
        let peer = Peer::new(Arc::default());
        for noise in
            ["", "Listening on port 3000", "[1]", "{}", "null", r#"{"id":"x","result":{}}"#]
        {
            assert!(!accept(&peer, noise).0, "{noise}");
        }
    }

    #[test]
    fn only_a_request_that_went_out_is_cancelled() {
        let peer = Peer::new(Arc::default());
        let cancelled = Arc::new(Mutex::new(Vec::new()));
        let register = || {
            let cancelled = Arc::clone(&cancelled);
            peer.register(Interest::default(), Some(Box::new(move |id| cancelled.lock().push(id))))
                .unwrap()
        };
        let (queued, sent, answered) = (register(), register(), register());
        assert!(peer.mark_sent(sent.id()) && peer.mark_sent(answered.id()));
        accept(&peer, r#"{"id":3,"result":{}}"#);
        drop((queued, sent, answered));
        assert_eq!(*cancelled.lock(), [2]);
        assert!(!peer.mark_sent(1), "a dropped request must not be written any more");
    }

    #[test]
    fn a_lost_connection_fails_what_was_sent_as_died_and_the_rest_as_unavailable() {
        let peer = Peer::new(Arc::default());
        let (mut queued, mut sent) = (
            peer.register(Interest::default(), None).unwrap(),
            peer.register(Interest::default(), None).unwrap(),
        );
        peer.mark_sent(sent.id());
        peer.fail_all(UpstreamErrorKind::Died, "gone");
        let kind = |handle: &mut ReplyHandle| {
            UpstreamError::from(handle.take().unwrap().unwrap_err()).kind
        };
        assert_eq!(kind(&mut queued), UpstreamErrorKind::Unavailable);
        assert_eq!(kind(&mut sent), UpstreamErrorKind::Died);
        let late = peer.register(Interest::default(), None).err().unwrap();
        assert_eq!(late.kind, UpstreamErrorKind::Unavailable);
    }
}
