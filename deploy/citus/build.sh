#!/usr/bin/env bash
# Build Citus 13.2.2 for Debian's PostgreSQL 15 into a copy of it: build.sh SOURCE TARGET
# SOURCE is a checkout of the tag v13.2.2 of github.com/citusdata/citus; TARGET is a new folder, whose
# usr/lib/postgresql/15/bin then has the programs. The installed PostgreSQL stays as it is.
#
# Debian packages: build-essential flex bison postgresql-15 postgresql-server-dev-15 libcurl4-openssl-dev
# libicu-dev libkrb5-dev liblz4-dev libpam0g-dev libreadline-dev libselinux1-dev libssl-dev libxslt1-dev
# libzstd-dev
set -euo pipefail
source=$(realpath "$1")
target=$2
version=15

mkdir -p "$target/usr/lib/postgresql" "$target/usr/share/postgresql"
target=$(realpath "$target")
cp -a "/usr/lib/postgresql/$version" "$target/usr/lib/postgresql/"
cp -a "/usr/share/postgresql/$version" "$target/usr/share/postgresql/"

cd "$source"
# PostgreSQL 15.20 added a function of this name, which Citus 13.2 defines for earlier ones.
git grep -l have_createdb_privilege src |
    xargs sed -i 's/\bhave_createdb_privilege\b/citus_have_createdb_privilege/g'
./configure --quiet --without-libcurl PG_CONFIG="/usr/lib/postgresql/$version/bin/pg_config"
make -s -j"$(nproc)" with_llvm=no
# The folders below DESTDIR are those of the copy, and PostgreSQL finds its files relative to itself.
make -s install DESTDIR="$target" with_llvm=no
