// What `stele bench produce --rate` measures, of Kafka: latency from when a record was intended to go out until its acknowledgement, in
// microseconds (the tool of Kafka counts in milliseconds, from the call). Prints one line: p50 p99 records-a-second.
//   kafka.sh tool bench/LatencyProducer.java SERVERS TOPIC RATE SECONDS WARM-UP-SECONDS [name=value ...]
import java.util.*;
import java.util.concurrent.atomic.*;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.producer.*;

public class LatencyProducer {
  static final int SIZE = 1024, POOL = 1 << 20, MAX_US = 10_000_000;

  public static void main(String[] a) throws Exception {
    double rate = Double.parseDouble(a[2]);
    long warm = (long) (rate * Double.parseDouble(a[4])), total = warm + (long) (rate * Double.parseDouble(a[3]));
    Properties p = new Properties();
    p.put("bootstrap.servers", a[0]);
    p.put("key.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
    p.put("value.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
    for (int i = 5; i < a.length; i++) p.put(a[i].substring(0, a[i].indexOf('=')), a[i].substring(a[i].indexOf('=') + 1));
    byte[] pool = new byte[POOL + SIZE];
    Random random = new Random(7);
    for (int i = 0; i < pool.length; i++) pool[i] = (byte) ("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .".charAt(random.nextInt(64)));
    int[] counts = new int[MAX_US + 1]; // all acknowledgements come on the producer's one thread
    AtomicLong failed = new AtomicLong(), last = new AtomicLong();
    long start = 0;
    try (Producer<byte[], byte[]> producer = new KafkaProducer<>(p)) {
      producer.partitionsFor(a[1]);
      start = System.nanoTime();
      for (long i = 0; i < total; i++) {
        long intended = start + (long) (i * 1e9 / rate), left;
        while ((left = intended - System.nanoTime()) > 0) LockSupport.parkNanos(Math.min(left, 50_000));
        int at = (int) (i * 4093 % POOL);
        boolean counts_in = i >= warm;
        producer.send(new ProducerRecord<>(a[1], 0, null, Arrays.copyOfRange(pool, at, at + SIZE)), (m, e) -> {
          long now = System.nanoTime();
          if (e != null) failed.incrementAndGet();
          else if (counts_in) counts[(int) Math.min(MAX_US, (now - intended) / 1000)]++;
          last.setPlain(now);
        });
      }
    }
    if (failed.get() > 0) throw new IllegalStateException(failed.get() + " records failed");
    System.out.println(at(counts, 0.5) + " " + at(counts, 0.99) + " " + Math.round(total / ((last.get() - start) / 1e9)));
  }

  static long at(int[] counts, double share) {
    long all = 0, seen = 0;
    for (int c : counts) all += c;
    for (int us = 0; us < counts.length; us++) if ((seen += counts[us]) >= share * all) return us;
    return counts.length;
  }
}
