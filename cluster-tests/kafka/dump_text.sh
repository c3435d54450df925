# Sourced by the tests that hold `stele dump` against kafka-dump-log.

# What Kafka's tool prints, without its complaints and the indented lines after them, and without what a decoder added to a record's line.
plain_dump() {
    sed -E -e '/^(Non-consecutive offsets|Mismatches in|The following|Found |Indexed offset:)/d' -e '/^  /d' \
        -e '/^\| /{/endTxnMarker/!s/(headerKeys: \[[^]]*\]).*/\1/}'
}
