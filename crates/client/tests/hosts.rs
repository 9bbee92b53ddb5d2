//! The client against hosts of every kind, on real sockets.
#![cfg(test)]

use toolcrib_client::{Client, Error, Secret, SourceKind};
use toolcrib_conformance::broken::{BrokenHost, KEY, OpenwopFault};

fn client(host: &BrokenHost, key: &str) -> Client {
    Client::new(&host.url, Some(Secret::new(key.to_owned()))).unwrap()
}

#[tokio::test]
async fn both_shapes_of_a_list_are_read() {
    let bare = BrokenHost::openwop(None).await;
    let wrapped = BrokenHost::openwop(Some(OpenwopFault::ListWrapped)).await;
    let one = client(&bare, KEY).tools().list().await.unwrap().unwrap();
    let other = client(&wrapped, KEY).tools().list().await.unwrap().unwrap();
    assert_eq!(one.len(), 3);
    assert_eq!(one, other);
    let extensions = client(&bare, KEY).tools().of(SourceKind::HostExtension).list().await;
    assert_eq!(extensions.unwrap().unwrap().len(), 1);
}

#[tokio::test]
async fn the_compact_view_is_read_in_both_shapes_too() {
    for fault in [None, Some(OpenwopFault::CompactBare)] {
        let host = BrokenHost::openwop(fault).await;
        let tools = client(&host, KEY).tools().list_compact().await.unwrap().unwrap();
        assert_eq!(tools.len(), 3, "{fault:?}");
        let one = client(&host, KEY).tools().get_compact("mcp:crib.echo").await.unwrap();
        assert_eq!(one.as_ref(), tools.first(), "{fault:?}");
    }
}

#[tokio::test]
async fn a_missing_tool_is_none_and_a_refusal_is_an_error() {
    let host = BrokenHost::openwop(None).await;
    let tools = client(&host, KEY);
    assert_eq!(tools.tools().get("mcp:crib.echo").await.unwrap().unwrap().tool_id, "mcp:crib.echo");
    assert!(tools.tools().get("a/../b%").await.unwrap().is_none());

    // A host of another protocol has no catalog.
    let other = BrokenHost::otc(true, None).await;
    assert!(client(&other, KEY).tools().list().await.unwrap().is_none());
    assert!(client(&other, KEY).tools().list_compact().await.unwrap().is_none());

    let refused = client(&host, "another").tools().list().await.unwrap_err();
    let Error::Refused(refusal) = refused else { panic!("{refused}") };
    assert_eq!((refusal.status, refusal.code.as_str()), (401, "unauthenticated"));
}

#[tokio::test]
async fn an_unreachable_host_is_an_error_without_the_address() {
    let host = BrokenHost::openwop(None).await;
    let url = host.url.clone();
    drop(host);
    // The port is closed once the server is gone.
    let mut last = None;
    for _ in 0..200 {
        match Client::new(&url, None).unwrap().tools().list().await {
            Err(Error::Unreachable(error)) => {
                last = Some(format!("{error:?}"));
                break;
            }
            _ => tokio::task::yield_now().await,
        }
    }
    assert!(!last.unwrap().contains("/v1/tools"));
}

#[test]
fn addresses_and_keys_are_checked() {
    for text in ["", "localhost:1", "ftp://a", "http://u:p@a", "http://a?b"] {
        assert!(matches!(Client::new(text, None), Err(Error::Address)), "{text}");
    }
    let key = Secret::new("a\nb".to_owned());
    assert!(matches!(Client::new("http://a", Some(key)), Err(Error::Key)));
}
