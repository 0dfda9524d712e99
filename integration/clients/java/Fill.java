import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Produces one record per hexadecimal key on stdin, with the client's default settings. */
public class Fill {
  public static void main(String[] args) throws Exception {
    Map<String, Object> config = Map.of("bootstrap.servers", args[0]);
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    List<Future<RecordMetadata>> sent = new ArrayList<>();
    try (KafkaProducer<byte[], byte[]> producer =
        new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
      for (String line = in.readLine(); line != null; line = in.readLine()) {
        byte[] key = HexFormat.of().parseHex(line);
        sent.add(producer.send(new ProducerRecord<>(args[1], key, "java".getBytes())));
      }
      producer.flush();
      for (Future<RecordMetadata> f : sent) {
        f.get();
      }
    }
  }
}
