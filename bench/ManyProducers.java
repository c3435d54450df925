// What bench_producers measures, of Kafka: requests of a single record from several producers at once, in one program. Prints how many
// records were acknowledged a second; the first three seconds do not count, in which Java compiles.
//   kafka.sh tool bench/ManyProducers.java SERVERS TOPIC PRODUCERS SECONDS
import java.util.*;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.*;
import org.apache.kafka.clients.producer.*;

public class ManyProducers {
  static final int SIZE = 100, WAITING = 100, WARM = 3;

  public static void main(String[] a) throws Exception {
    int count = Integer.parseInt(a[2]), seconds = Integer.parseInt(a[3]);
    Properties p = new Properties();
    p.put("bootstrap.servers", a[0]);
    p.put("key.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
    p.put("value.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
    p.put("acks", "all");
    p.put("linger.ms", "0");
    p.put("batch.size", "1");
    long from = System.nanoTime() + WARM * 1_000_000_000L, until = from + seconds * 1_000_000_000L;
    LongAdder acknowledged = new LongAdder();
    AtomicReference<Exception> failed = new AtomicReference<>();
    List<Thread> threads = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      Thread thread = new Thread(() -> {
        Semaphore waiting = new Semaphore(WAITING);
        byte[] value = new byte[SIZE];
        Arrays.fill(value, (byte) 'a');
        try (Producer<byte[], byte[]> producer = new KafkaProducer<>(p)) {
          while (System.nanoTime() < until) {
            waiting.acquire();
            producer.send(new ProducerRecord<>(a[1], value), (m, e) -> {
              long now = System.nanoTime();
              if (e != null) failed.set(e);
              else if (now >= from && now < until) acknowledged.increment();
              waiting.release();
            });
          }
        } catch (Exception e) {
          failed.set(e);
        }
      });
      thread.start();
      threads.add(thread);
    }
    for (Thread thread : threads) thread.join();
    if (failed.get() != null) throw failed.get();
    System.out.println(acknowledged.sum() / seconds);
  }
}
