//! The requirements of [`ClientSessionStore`](toolcrib_core::store::ClientSessionStore).

use toolcrib_core::{
    canonical::Digest,
    store::{ClientSession, SessionNotice, Storage},
};

use super::moment;

/// A session is closed once, without any other session.
pub async fn a_session_ends_alone(storage: &dyn Storage) {
    let sessions = storage.client_sessions();
    let (ended, other) = (session("a", 1), session("b", 1));
    sessions.end(ended, moment(100)).await.unwrap();
    sessions.end(ended, moment(100)).await.unwrap();
    assert!(sessions.has_ended(ended).await.unwrap());
    assert!(!sessions.has_ended(other).await.unwrap());
    assert_eq!(sessions.notices(0).await.unwrap().len(), 1);
}

/// Notices come in their order, each with a number up to that of the changes.
pub async fn notices_come_in_their_order(storage: &dyn Storage) {
    let sessions = storage.client_sessions();
    assert!(sessions.notices(0).await.unwrap().is_empty());
    let seen = storage.changes(None).await.unwrap();
    let running = session("a", 1);
    sessions.cancel(running, "\"r1\"".to_owned(), moment(50)).await.unwrap();
    sessions.cancel(running, "2".to_owned(), moment(50)).await.unwrap();
    assert!(!sessions.has_ended(running).await.unwrap());
    sessions.end(running, moment(100)).await.unwrap();
    let notices = sessions.notices(seen.sessions).await.unwrap();
    let cancelled: Vec<_> = notices.iter().map(|notice| notice.cancels.as_deref()).collect();
    assert_eq!(cancelled, [Some("\"r1\""), Some("2"), None]);
    assert!(notices.iter().all(|notice| notice.session == running.id));
    let last = notices.last().map(|notice: &SessionNotice| notice.number);
    let mut now = storage.changes(Some(seen)).await.unwrap();
    for _ in 0..20 {
        if Some(now.sessions) == last {
            break;
        }
        now = storage.changes(Some(seen)).await.unwrap();
    }
    assert_eq!(Some(now.sessions), last);
    assert_eq!(sessions.notices(notices[1].number).await.unwrap(), notices[2..]);
}

/// Expired notices are deleted.
pub async fn notices_expire(storage: &dyn Storage) {
    let sessions = storage.client_sessions();
    sessions.end(session("old", 1), moment(10)).await.unwrap();
    sessions.cancel(session("a", 1), "1".to_owned(), moment(10)).await.unwrap();
    sessions.end(session("new", 2), moment(100)).await.unwrap();
    assert_eq!(sessions.sweep(moment(10), 9).await.unwrap(), 2);
    assert_eq!(sessions.sweep(moment(10), 9).await.unwrap(), 0);
    assert!(sessions.has_ended(session("new", 2)).await.unwrap());
    assert!(!sessions.has_ended(session("old", 1)).await.unwrap());
}

/// When there are too many closed sessions, the oldest are forgotten. All sessions opened before a
/// forgotten one count as closed.
pub async fn a_forgotten_end_ends_what_is_older(storage: &dyn Storage) {
    let sessions = storage.client_sessions();
    for at in [3, 1, 5, 7] {
        sessions.end(session(&at.to_string(), at), moment(100)).await.unwrap();
    }
    sessions.cancel(session("running", 9), "1".to_owned(), moment(100)).await.unwrap();
    assert_eq!(sessions.sweep(moment(10), 2).await.unwrap(), 2);
    for (id, opened, has_ended) in [
        ("new", 1, true),
        ("new", 3, true),
        ("new", 4, false),
        ("5", 5, true),
        ("running", 9, false),
    ] {
        let ended = sessions.has_ended(session(id, opened)).await.unwrap();
        assert_eq!(ended, has_ended, "{id} opened at {opened}");
    }
    assert_eq!(sessions.notices(0).await.unwrap().len(), 3);
}

fn session(id: &str, opened: i64) -> ClientSession {
    ClientSession { id: Digest::of(id.as_bytes()), opened: moment(opened) }
}
