use std::{
    collections::HashSet,
    sync::atomic::{AtomicUsize, Ordering},
};

use http::HeaderMap;
use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use toolcrib_core::egress::AllowList;

use super::*;
use crate::egress::{Guard, Network, SystemResolver};

/// Most connections that the server serves; it ends all others at once.
const MOST: usize = 8;
const FILES: usize = 200;

/// Answers a request, unless it is the first one for a file whose number ends in 7.
async fn serve(mut stream: TcpStream, asked: Arc<Mutex<HashSet<String>>>) -> io::Result<()> {
    let mut request = [0; 4_096];
    let length = stream.read(&mut request).await?;
    let request = String::from_utf8_lossy(&request[..length]);
    let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
    if asked.lock().insert(path.clone()) && path.ends_with("7.json") {
        return Ok(());
    }
    let text = match path.as_str() {
        "/openapi.json" => {
            let files: Vec<_> = (0..FILES).map(|n| format!("{{\"$ref\":\"f{n}.json\"}}")).collect();
            format!("{{\"openapi\":\"3.1.0\",\"all\":[{}]}}", files.join(","))
        }
        path => format!("{{\"path\":\"{path}\"}}"),
    };
    // Long enough for further requests of the same round to arrive.
    tokio::time::sleep(Duration::from_millis(5)).await;
    stream.write_all(format!("HTTP/1.0 200 OK\r\n\r\n{text}").as_bytes()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_files_of_a_small_server_are_all_read() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = Arc::new(Mutex::new(HashSet::new()));
    let server = tokio::spawn(async move {
        let open = Arc::new(AtomicUsize::new(0));
        while let Ok((stream, _)) = listener.accept().await {
            let (open, asked) = (Arc::clone(&open), Arc::clone(&asked));
            if open.fetch_add(1, Ordering::SeqCst) >= MOST {
                open.fetch_sub(1, Ordering::SeqCst);
                continue;
            }
            tokio::spawn(async move {
                serve(stream, asked).await.ok();
                open.fetch_sub(1, Ordering::SeqCst);
            });
        }
    });
    let url = Url::parse(&format!("http://127.0.0.1:{port}/openapi.json")).unwrap();
    let guard = Guard::new(AllowList::default(), [&url]);
    let reader = DocumentReader {
        egress: Network::new(Arc::new(SystemResolver)).egress(guard).unwrap(),
        location: DocumentLocation::Url(url),
        headers: Arc::new(OwnHeaders { headers: HeaderMap::new(), home: None }),
    };
    let LoadedDocument { document, interrupted } = reader.load().await.unwrap();
    assert!(interrupted.is_none());
    let all: Vec<_> = document.root().get("all").unwrap().items().collect();
    assert_eq!(all.len(), FILES);
    for (n, file) in all.into_iter().enumerate() {
        let path = format!("/f{n}.json");
        assert_eq!(document.follow(file).map(|node| node.text("path")), Ok(Some(path.as_str())));
    }
    server.abort();
}
