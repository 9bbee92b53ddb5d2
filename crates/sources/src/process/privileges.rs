//! Drops every capability, and the means to gain one.

use rustix::{
    io::Errno,
    thread::{
        CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set,
        clear_ambient_capability_set, remove_capability_from_bounding_set, set_capabilities,
        set_no_new_privs,
    },
};

/// Drops all capabilities (ambient, bounding, effective, permitted and inheritable), and sets
/// `no_new_privs`: no later program gains a privilege, not even a setuid one.
pub(super) fn drop_all() -> Result<(), String> {
    drop_each().map_err(|error| format!("capabilities cannot be dropped: {error}"))
}

fn drop_each() -> Result<(), Errno> {
    set_no_new_privs(true)?;
    clear_ambient_capability_set()?;
    let has_none = capabilities(None)?.permitted.is_empty();
    for number in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        match capability_is_in_bounding_set(capability) {
            Ok(true) => match remove_capability_from_bounding_set(capability) {
                // Without capabilities the bounding set cannot be changed, and `no_new_privs`
                // prevents its use.
                Err(Errno::PERM) if has_none => break,
                removed => removed?,
            },
            Ok(false) => {}
            // The kernel knows no capability with this number or a higher one.
            Err(Errno::INVAL) => break,
            Err(error) => return Err(error),
        }
    }
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
}
