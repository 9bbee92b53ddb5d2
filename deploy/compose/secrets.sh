#!/bin/sh
# Creates the secrets of compose.yaml in secrets/, next to this file. Existing ones stay.
#
# The files are readable by the users of the containers, and their folder by its owner only.
set -eu
cd "$(dirname "$0")"
umask 077
mkdir -p secrets
for name in database_password cache_password seal_key signing_key; do
    if [ ! -e "secrets/$name" ]; then
        openssl rand -base64 32 > "secrets/$name.new"
        chmod 0444 "secrets/$name.new"
        mv "secrets/$name.new" "secrets/$name"
    fi
done
