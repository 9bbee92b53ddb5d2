//! Classifies IP addresses as public, private or unreachable.
//!
//! Invariant: an address that embeds another one (mapped, NAT64, 6to4) is classified by the
//! embedded address. An address counts as public only if it is known to be public.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The network that an address belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Reachable over the internet.
    Public,
    /// On this machine or in a private network.
    Private,
    /// Never a valid destination: link-local (cloud metadata), multicast, reserved.
    Never,
}

/// Returns the address actually reached through `address`.
pub(crate) fn unwrapped(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => carried(v6).map_or(address, IpAddr::V4),
    }
}

/// Classifies `address`.
pub(crate) fn reach(address: IpAddr) -> Reach {
    match unwrapped(address) {
        IpAddr::V4(v4) => reach_v4(v4),
        IpAddr::V6(v6) => reach_v6(v6),
    }
}

/// Returns the IPv4 address embedded in a mapped (`::ffff:0:0/96`), NAT64 (`64:ff9b::/96`) or 6to4
/// (`2002::/16`) address.
fn carried(v6: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, d, e, f, g, h] = v6.segments();
    let joined = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Ipv4Addr::new(a, b, c, d)
    };
    match (a, b, c, d, e, f) {
        (0, 0, 0, 0, 0, 0xffff) | (0x64, 0xff9b, 0, 0, 0, 0) => Some(joined(g, h)),
        (0x2002, high, low, ..) => Some(joined(high, low)),
        _ => None,
    }
}

fn reach_v4(v4: Ipv4Addr) -> Reach {
    match v4.octets() {
        [10, ..] | [127, ..] | [192, 168, ..] => Reach::Private,
        [172, b, ..] if b & 0xf0 == 16 => Reach::Private,
        // Carrier-grade NAT, also used by overlay networks.
        [100, b, ..] if b & 0xc0 == 64 => Reach::Private,
        [0, ..] | [169, 254, ..] => Reach::Never,
        // Protocol assignments, documentation, 6to4 relays, benchmarks.
        [192, 0, 0 | 2, _] | [192, 88, 99, _] | [198, 18 | 19, ..] => Reach::Never,
        [198, 51, 100, _] | [203, 0, 113, _] => Reach::Never,
        // Multicast, reserved, broadcast.
        [224..=255, ..] => Reach::Never,
        _ => Reach::Public,
    }
}

fn reach_v6(v6: Ipv6Addr) -> Reach {
    if v6 == Ipv6Addr::LOCALHOST {
        return Reach::Private;
    }
    match v6.segments() {
        // Amazon's metadata service has a unique local address.
        [0xfd00, 0x0ec2, ..] => Reach::Never,
        [a, ..] if a & 0xfe00 == 0xfc00 => Reach::Private,
        // Teredo and other protocol assignments, documentation.
        [0x2001, b, ..] if b < 0x200 => Reach::Never,
        [0x2001, 0x0db8, ..] => Reach::Never,
        [0x3fff, b, ..] if b < 0x1000 => Reach::Never,
        // Only this eighth of the address space is allocated for global routing.
        [a, ..] if a & 0xe000 == 0x2000 => Reach::Public,
        _ => Reach::Never,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_special_block_is_known() {
        for (reached, addresses) in [
            (
                Reach::Private,
                "10.0.0.0 10.255.255.255 127.0.0.1 127.255.255.255 172.16.0.0 172.31.255.255 \
                 192.168.0.0 192.168.255.255 100.64.0.0 100.127.255.255 ::1 fc00:: \
                 fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ::ffff:127.0.0.1 ::ffff:10.0.0.1 \
                 64:ff9b::7f00:1 64:ff9b::192.168.1.1 2002:7f00:1:: 2002:a00:1::1",
            ),
            (
                Reach::Never,
                "0.0.0.0 0.1.2.3 169.254.0.0 169.254.169.254 169.254.255.255 192.0.0.1 192.0.2.1 \
                 192.88.99.1 198.18.0.0 198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1 \
                 239.255.255.255 240.0.0.1 255.255.255.255 :: ::2 ::127.0.0.1 \
                 ::ffff:169.254.169.254 64:ff9b::a9fe:a9fe 64:ff9b:1::1 100::1 2001::1 \
                 2001:0:7f00:1::1 2001:1ff::1 2001:db8::1 2002:a9fe:a9fe::1 3fff::1 fd00:ec2::254 \
                 fe80::1 febf::1 fec0::1 ff02::1 4000::1 5f00::1 8000::1",
            ),
            (
                Reach::Public,
                "1.1.1.1 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 \
                 128.0.0.0 169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0 192.0.1.0 \
                 192.167.255.255 192.169.0.0 198.17.255.255 198.20.0.0 223.255.255.255 \
                 2001:200:: 2001:4860:4860::8888 2606:4700::1111 2a00:: ::ffff:1.1.1.1 \
                 64:ff9b::101:101 2002:101:101::1",
            ),
        ] {
            for text in addresses.split_whitespace() {
                assert_eq!(reach(text.parse().expect(text)), reached, "{text}");
            }
        }
    }
}
