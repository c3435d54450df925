// Asks a running Kafka what it serves of logs that write_logs put into its directories.
//   java -cp 'LIBS/*' Reader.java create SERVERS <topics    makes topics of one partition; prints "TOPIC TOPIC-ID" for each
//   java -cp 'LIBS/*' Reader.java answer SERVERS EXPECTED   prints what it finds in the form of EXPECTED (made_print)
//   java -cp 'LIBS/*' Reader.java append SERVERS EXPECTED   aborts the open transactions and appends a record to each log
import java.io.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.time.Duration;
import java.util.*;
import java.util.stream.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.header.Header;

public class Reader {
  static String servers;
  static PrintStream out = new PrintStream(new BufferedOutputStream(new FileOutputStream(FileDescriptor.out), 1 << 16));

  static Map<String, Object> props(Object... kv) {
    Map<String, Object> p = new HashMap<>(Map.of("bootstrap.servers", servers));
    for (String end : List.of("key.", "value.")) {
      p.put(end + "serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
      p.put(end + "deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
    }
    for (int i = 0; i < kv.length; i += 2) p.put((String) kv[i], kv[i + 1]);
    return p;
  }

  static String hex(byte[] b) { return b == null ? " -" : b.length == 0 ? " ." : " " + HexFormat.of().formatHex(b); }

  static String text(ConsumerRecord<byte[], byte[]> r) {
    StringBuilder s = new StringBuilder("record " + r.topic() + " " + r.offset() + " " + r.leaderEpoch().orElse(-1) + " " + r.timestampType() + " " + r.timestamp());
    s.append(hex(r.key())).append(hex(r.value()));
    for (Header h : r.headers()) s.append(hex(h.key().getBytes(StandardCharsets.UTF_8))).append(hex(h.value()));
    return s.toString();
  }

  static Map<TopicPartition, ListOffsetsResultInfo> offsets(Admin admin, Collection<TopicPartition> parts, OffsetSpec spec, IsolationLevel level) throws Exception {
    return admin.listOffsets(parts.stream().collect(Collectors.toMap(p -> p, p -> spec)), new ListOffsetsOptions(level)).all().get();
  }

  /** Reads everything below `ends`; a record at or above them is an error of the broker. */
  static void consume(List<TopicPartition> parts, Map<TopicPartition, ListOffsetsResultInfo> ends, boolean committed) {
    long deadline = System.nanoTime() + 60_000_000_000L;
    try (var c = new KafkaConsumer<byte[], byte[]>(props("isolation.level", committed ? "read_committed" : "read_uncommitted", "enable.auto.commit", false, "auto.offset.reset", "none", "max.poll.records", 5000))) {
      c.assign(parts);
      c.seekToBeginning(parts);
      while (parts.stream().anyMatch(p -> c.position(p) < ends.get(p).offset())) {
        if (System.nanoTime() > deadline) throw new RuntimeException("no end within 60 s: " + parts.stream().filter(p -> c.position(p) < ends.get(p).offset()).toList());
        for (var r : c.poll(Duration.ofMillis(200))) out.println(committed ? "committed " + r.topic() + " " + r.offset() : text(r));
      }
    }
  }

  static void answer(Admin admin, List<String[]> expected, List<TopicPartition> parts) throws Exception {
    var starts = offsets(admin, parts, OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED);
    var stables = offsets(admin, parts, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED);
    var ends = offsets(admin, parts, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED);
    var latest = offsets(admin, parts, OffsetSpec.maxTimestamp(), IsolationLevel.READ_UNCOMMITTED);
    var sure = expected.stream().filter(l -> l[0].equals("latest")).map(l -> l[1]).collect(Collectors.toSet());
    for (var p : parts) {
      out.println("offsets " + p.topic() + " " + starts.get(p).offset() + " " + stables.get(p).offset() + " " + ends.get(p).offset());
      if (sure.contains(p.topic())) out.println("latest " + p.topic() + " " + latest.get(p).offset() + " " + latest.get(p).timestamp());
    }
    consume(parts, ends, false);
    consume(parts, stables, true);
    for (var e : admin.describeProducers(parts).all().get().entrySet())
      for (var s : e.getValue().activeProducers())
        out.println("producer " + e.getKey().topic() + " " + s.producerId() + " " + s.producerEpoch() + " " + s.lastSequence() + " " + s.lastTimestamp() + " " + s.coordinatorEpoch().orElse(-1) + " " + s.currentTransactionStartOffset().orElse(-1));
    Map<String, Deque<Long>> times = new TreeMap<>();
    for (var line : expected)
      if (line[0].equals("time")) times.computeIfAbsent(line[1], t -> new ArrayDeque<>()).add(Long.parseLong(line[2]));
    while (!times.isEmpty()) { // a time of every log in one question
      Map<TopicPartition, OffsetSpec> ask = new HashMap<>();
      Map<TopicPartition, Long> asked = new HashMap<>();
      for (var e : times.entrySet()) asked.put(new TopicPartition(e.getKey(), 0), e.getValue().remove());
      asked.forEach((p, t) -> ask.put(p, OffsetSpec.forTimestamp(t)));
      times.values().removeIf(Collection::isEmpty);
      admin.listOffsets(ask).all().get().forEach((p, found) -> out.println("time " + p.topic() + " " + asked.get(p) + (found.offset() < 0 ? " - -" : " " + found.offset() + " " + found.timestamp())));
    }
  }

  static void append(Admin admin, List<String[]> expected, List<TopicPartition> parts) throws Exception {
    for (var line : expected)
      if (line[0].equals("producer") && !line[7].equals("-1"))
        admin.abortTransaction(new AbortTransactionSpec(new TopicPartition(line[1], 0), Long.parseLong(line[2]), Short.parseShort(line[3]), Integer.parseInt(line[6]))).all().get();
    // The broker may give out an id that our node gave too: not idempotent.
    try (var p = new KafkaProducer<byte[], byte[]>(props("compression.type", "zstd", "enable.idempotence", "false"))) {
      for (var part : parts) p.send(new ProducerRecord<>(part.topic(), 0, null, "after".getBytes()));
      p.flush();
    }
    var stables = offsets(admin, parts, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED);
    var ends = offsets(admin, parts, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED);
    for (var p : parts) out.println("end " + p.topic() + " " + stables.get(p).offset() + " " + ends.get(p).offset());
  }

  public static void main(String[] a) throws Exception {
    servers = a[1];
    try (var admin = Admin.create(props())) {
      if (a[0].equals("create")) {
        var names = new BufferedReader(new InputStreamReader(System.in)).lines().toList();
        var made = admin.createTopics(names.stream().map(n -> new NewTopic(n, 1, (short) 1)).toList());
        made.all().get();
        for (var n : names) out.println(n + " " + made.topicId(n).get());
      } else {
        var expected = Files.readAllLines(Path.of(a[2])).stream().map(l -> l.split(" ")).toList();
        var parts = expected.stream().map(l -> l[1]).distinct().map(t -> new TopicPartition(t, 0)).toList();
        if (a[0].equals("answer")) answer(admin, expected, parts);
        else append(admin, expected, parts);
      }
    }
    out.flush();
  }
}
